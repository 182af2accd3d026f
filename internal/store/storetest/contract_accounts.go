package storetest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

func accounts(t *testing.T, f *Fixture) {
	Is(t, Err(f.Account(t.Context(), "\x00")), fault.NotFound)
	mei := store.Account{Name: "mei", Role: "operator", Password: "$argon2id$…", MadeAt: f.Now}
	OK(t, f.AddAccount(t.Context(), mei, f.Act()))
	f.Pass(time.Second)
	li := store.Account{Name: "a.li-2", Role: "reader", Identity: "li@example.com", MadeAt: f.Now}
	OK(t, f.AddAccount(t.Context(), li, f.Act()))
	changed := mei
	changed.Role, changed.Password, changed.DisabledAt = "owner", "other", f.Now
	OK(t, f.ChangeAccount(t.Context(), "mei", store.AccountChange{
		Role: &changed.Role, Password: &changed.Password,
		DisabledAt: &changed.DisabledAt,
	}, f.Act()))
	Equal(t, "changed", Must(f.Replica.Account(t.Context(), "mei"))(t), changed)
	Equal(t, "of the identity", Must(f.Replica.AccountByIdentity(t.Context(), "li@example.com"))(t), li)
	for _, unknown := range []string{"", "Li@example.com", "\x00", "a.li-2"} {
		Is(t, Err(f.AccountByIdentity(t.Context(), unknown)), fault.NotFound)
	}
	Is(t, f.AddAccount(t.Context(), mei, f.Act()), store.ErrNameTaken)
	// only li has the identity, so the name is the reason
	Is(t, f.AddAccount(t.Context(), li, f.Act()), store.ErrNameTaken)
	Is(t, f.AddAccount(t.Context(), store.Account{Name: "bo", Role: "reader", Identity: li.Identity}, f.Act()), store.ErrIdentityTaken)
	Is(t, f.ChangeAccount(t.Context(), "mei", store.AccountChange{Identity: &li.Identity}, f.Act()), store.ErrIdentityTaken)
	for _, unknown := range []string{"bo", "", "Mei", "\x00"} {
		Is(t, f.ChangeAccount(t.Context(), unknown, store.AccountChange{Role: &mei.Role}, f.Act()), fault.NotFound)
	}
	Equal(t, "list", Must(f.Accounts(t.Context()))(t), []store.Account{li, changed})
	acts := f.ListActs(t, store.AuditFilter{})
	Equal(t, "acts", len(acts), 3)
	Equal(t, "role in the act of a change", acts[0].Detail, "owner")
	OK(t, f.ChangeAccount(t.Context(), "mei", store.AccountChange{Identity: new("mei@example.com"), DisabledAt: &time.Time{}}, f.Act()))
	changed.Identity, changed.DisabledAt = "mei@example.com", time.Time{}
	Equal(t, "open again", Must(f.Account(t.Context(), "mei"))(t), changed)
	OK(t, f.ChangeAccount(t.Context(), "mei", store.AccountChange{Identity: new("")}, f.Act()))
	Is(t, Err(f.AccountByIdentity(t.Context(), "mei@example.com")), fault.NotFound)
}

// accountsAtOnce changes different fields of one account through two replicas at once. No change
// may undo another, and each writes its audit entry.
func accountsAtOnce(t *testing.T, f *Fixture) {
	mei := store.Account{Name: "mei", Role: "owner", Password: "old", MadeAt: f.Now}
	OK(t, f.AddAccount(t.Context(), mei, f.Act()))
	want := mei
	want.Role, want.Password, want.Identity, want.DisabledAt = "reader", "new", "mei@example.com", f.Now
	changes := []store.AccountChange{
		{Role: &want.Role},
		{Password: &want.Password},
		{Identity: &want.Identity},
		{DisabledAt: &want.DisabledAt},
	}
	var acts []store.AuditEntry
	for range changes {
		acts = append(acts, f.Act())
	}
	f.atOnce(t, len(changes), func(db *sqldb.DB, i int) (bool, error) {
		return true, db.ChangeAccount(t.Context(), "mei", changes[i], acts[i])
	})
	Equal(t, "after all", Must(f.Account(t.Context(), "mei"))(t), want)
	Equal(t, "acts", len(f.ListActs(t, store.AuditFilter{})), 1+len(changes))
}

func sessions(t *testing.T, f *Fixture) {
	begin := func(n byte) store.Session {
		s := store.Session{
			ID: [32]byte{n}, Account: "mei", Bound: [32]byte{9, n}, Via: "oidc", Granted: "staff", FactorPassed: n == 1,
		}
		return Must(f.BeginSession(t.Context(), s, 12*time.Hour, f.Act()))(t)
	}
	find := func(n byte) error { return err2(f.Session(t.Context(), [32]byte{n})) }
	first := begin(1)
	f.Pass(time.Minute)
	OK(t, f.TouchSession(t.Context(), first.ID))
	Must(f.AddSecondFactor(t.Context(), store.SecondFactor{Account: "mei", Sealed: []byte("s")}, f.Act()))(t)
	first.SeenAt, first.FactorAt = f.Now, f.Now
	got, now := must2(f.Replica.Session(t.Context(), first.ID))(t)
	Equal(t, "found", []any{got, now}, []any{first, f.Now})
	begin(2)
	Equal(t, "acts", len(f.ListActs(t, store.AuditFilter{})), 3)
	for range 2 {
		OK(t, f.EndSession(t.Context(), [32]byte{2}))
		Is(t, find(2), fault.NotFound)
	}
	begin(5)
	Must(f.BeginSession(t.Context(), store.Session{ID: [32]byte{6}, Account: "li"}, 12*time.Hour, f.Act()))(t)
	end := func(account string) bool { return Must(f.EndSessions(t.Context(), account, f.Act()))(t) }
	acts := len(f.ListActs(t, store.AuditFilter{}))
	Equal(t, "ended", end("bo"), false)
	Is(t, Err(f.EndSessions(t.Context(), "\x00", f.Act())), store.ErrBadRequest)
	Equal(t, "acts of what was not done", len(f.ListActs(t, store.AuditFilter{})), acts)
	Equal(t, "all ended", end("mei"), true)
	Is(t, find(1), fault.NotFound)
	Is(t, find(5), fault.NotFound)
	OK(t, find(6))
	details := []string{}
	for _, act := range f.ListActs(t, store.AuditFilter{}) {
		details = append(details, act.Detail)
	}
	Equal(t, "numbers in the acts", details[:1], []string{"2"})

	begin(1)
	f.Pass(12 * time.Hour)
	begin(3)
	OK(t, find(1)) // a session lasts exactly 12 hours
	f.Pass(time.Microsecond)
	begin(4)
	Is(t, find(1), fault.NotFound)
}

// Act returns an administrator's audit entry with an ID of its own, after the changes.
func (f *Fixture) Act(changes ...func(*store.AuditEntry)) store.AuditEntry {
	f.Serial++
	a := store.AuditEntry{
		ID: uuid.UUID{2: byte(f.Serial >> 8), 3: byte(f.Serial), 6: 0x70, 8: 0x80}, Who: "mei", Role: "operator", Network: "192.0.2.0/24",
		What: "quota.reset", App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: recipient.Hash{15: 1},
		To: "a•••@example.com", Target: "0190", Reason: "ticket 7, she waits\nat the door", Outcome: store.AuditDone, Detail: "3",
	}
	for _, change := range changes {
		change(&a)
	}
	return a
}

// ListActs lists the acts of a filter, 200 at most.
func (f *Fixture) ListActs(t *testing.T, filter store.AuditFilter) []store.AuditEntry {
	t.Helper()
	if filter.Limit == 0 {
		filter.Limit = store.MaxPageRows
	}
	list := Must(f.AuditEntries(t.Context(), filter))(t)
	return list
}

func acts(t *testing.T, f *Fixture) {
	begun := f.Act(func(a *store.AuditEntry) { a.Outcome, a.Detail = store.AuditBegun, "" })
	OK(t, f.AddAuditEntry(t.Context(), begun))
	begun.At = f.Now
	f.Pass(time.Second)
	ended := Must(store.AuditEntryCompletion(begun, store.AuditFailed, "limiter"))(t)
	OK(t, f.Replica.AddAuditEntry(t.Context(), ended))
	ended.At = f.Now
	Equal(t, "what it ends", ended.Completes, begun.ID)
	f.Pass(time.Second)
	onNoOne := f.Act(func(a *store.AuditEntry) {
		a.Who, a.What, a.Recipient, a.To, a.App, a.Channel, a.Purpose, a.Outcome = "li", "account.add", recipient.Hash{}, "", "", "", "",
			store.AuditFailed
	})
	same := f.Act() // at the same instant as onNoOne
	OK(t, f.AddAuditEntry(t.Context(), onNoOne))
	OK(t, f.AddAuditEntry(t.Context(), same))
	onNoOne.At, same.At = f.Now, f.Now

	Equal(t, "all", f.ListActs(t, store.AuditFilter{}), []store.AuditEntry{same, onNoOne, ended, begun})
	Equal(t, "of one", f.ListActs(t, store.AuditFilter{Who: "li"}), []store.AuditEntry{onNoOne})
	Equal(t, "of one kind", f.ListActs(t, store.AuditFilter{What: "quota.reset"}), []store.AuditEntry{same, ended, begun})
	Equal(t, "on one", f.ListActs(t, store.AuditFilter{Recipient: &recipient.Hash{15: 1}}), []store.AuditEntry{same, ended, begun})
	Equal(t, "on another", f.ListActs(t, store.AuditFilter{Recipient: &recipient.Hash{15: 2}}), nil)
	Equal(t, "on no one", f.ListActs(t, store.AuditFilter{Recipient: &recipient.Hash{}}), nil)
	Equal(t, "hostile", f.ListActs(t, store.AuditFilter{Who: "\x00'; --"}), nil)
	Equal(t, "first page", f.ListActs(t, store.AuditFilter{Limit: 1}), []store.AuditEntry{same})
	Equal(t, "next page", f.ListActs(t, store.AuditFilter{Limit: 2, Before: &store.Cursor{At: same.At, ID: same.ID}}),
		[]store.AuditEntry{onNoOne, ended})
}

func actsOnce(t *testing.T, f *Fixture) {
	a := f.Act()
	OK(t, f.AddAuditEntry(t.Context(), a))
	first := f.Now
	f.Pass(time.Second)
	other := f.Act(func(b *store.AuditEntry) {
		b.ID, b.Who, b.To, b.Recipient = a.ID, "eve", "e•••@example.com", recipient.Hash{15: 2}
	})
	OK(t, f.AddAuditEntry(t.Context(), other)) // a repetition, as after a lost answer, changes no entry
	a.At = first
	Equal(t, "acts", f.ListActs(t, store.AuditFilter{}), []store.AuditEntry{a})
}

// cancelsBy cancels an open code twice, and an unknown code, as an administrator. Each call writes
// an audit entry, which says whether the code was canceled.
func cancelsBy(t *testing.T, f *Fixture) {
	v := f.Admit(t, f.Intent(1)).Verification
	f.Pass(time.Second)
	Is(t, Err(f.CancelByAdministrator(t.Context(), v.ID, f.Act(func(a *store.AuditEntry) { a.Who = "" }))), store.ErrBadRequest)
	var acts []store.AuditEntry
	for n, id := range []string{v.ID, v.ID, "no such id"} {
		act := f.Act()
		Equal(t, "canceled", Must(f.CancelByAdministrator(t.Context(), id, act))(t), n == 0)
		act.At = f.Now
		if n > 0 {
			act.Outcome, act.Detail = store.AuditFailed, "ended"
		}
		acts = append([]store.AuditEntry{act}, acts...)
	}
	Equal(t, "canceled at", f.Code(t, v.ID).CanceledAt, f.Now)
	Equal(t, "acts", f.ListActs(t, store.AuditFilter{}), acts)
}

func secondFactors(t *testing.T, f *Fixture) {
	yes := func(did bool, err error) { t.Helper(); OK(t, err); Equal(t, "done", did, true) }
	no := func(did bool, err error) { t.Helper(); OK(t, err); Equal(t, "done", did, false) }
	Is(t, Err(f.SecondFactor(t.Context(), "mei")), fault.NotFound)
	Is(t, Err(f.SecondFactor(t.Context(), "\x00")), fault.NotFound)
	no(f.TakeTOTPStep(t.Context(), "mei", 1, []byte("sealed"), []byte("sealed")))
	no(f.DropSecondFactor(t.Context(), "mei", f.Act()))
	Equal(t, "acts of what was not done", len(f.ListActs(t, store.AuditFilter{})), 0)

	mei := store.SecondFactor{Account: "mei", Sealed: []byte("sealed"), Step: 41}
	yes(f.AddSecondFactor(t.Context(), mei, f.Act()))
	mei.MadeAt = f.Now
	f.Pass(time.Second)
	no(f.AddSecondFactor(t.Context(), store.SecondFactor{Account: "mei", Sealed: []byte("another"), Step: 7}, f.Act()))
	yes(f.AddSecondFactor(t.Context(), store.SecondFactor{Account: "li", Sealed: []byte("li's"), Step: 1}, f.Act()))
	Equal(t, "found", Must(f.Replica.SecondFactor(t.Context(), "mei"))(t), mei)

	// A time step can be taken once. After it, no earlier step can be taken, and no step of another
	// secret.
	no(f.TakeTOTPStep(t.Context(), "mei", 41, mei.Sealed, mei.Sealed))
	no(f.TakeTOTPStep(t.Context(), "mei", 42, []byte("another"), mei.Sealed))
	yes(f.TakeTOTPStep(t.Context(), "mei", 42, mei.Sealed, []byte("sealed anew")))
	no(f.Replica.TakeTOTPStep(t.Context(), "mei", 42, []byte("sealed anew"), mei.Sealed))
	no(f.Replica.TakeTOTPStep(t.Context(), "mei", 41, []byte("sealed anew"), mei.Sealed))
	mei.Step, mei.Sealed = 42, []byte("sealed anew")

	Equal(t, "after a step", Must(f.SecondFactor(t.Context(), "mei"))(t), mei)
	Equal(t, "acts", len(f.ListActs(t, store.AuditFilter{})), 2)

	yes(f.DropSecondFactor(t.Context(), "mei", f.Act()))
	Is(t, Err(f.Replica.SecondFactor(t.Context(), "mei")), fault.NotFound)
}

// secondFactorsAtOnce uses one code eight times at once, through both replicas. Only one use may
// succeed.
func secondFactorsAtOnce(t *testing.T, f *Fixture) {
	Must(f.AddSecondFactor(t.Context(), store.SecondFactor{Account: "mei", Sealed: []byte("s")}, f.Act()))(t)
	Equal(t, "steps", f.atOnce(t, 8, func(db *sqldb.DB, _ int) (bool, error) {
		return db.TakeTOTPStep(t.Context(), "mei", 7, []byte("s"), []byte("s"))
	}), 1)
}
