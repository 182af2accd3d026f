package storetest

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/store"
)

func accounts(t *testing.T, f *Fixture) {
	_, err := f.Account(t.Context(), "\x00")
	Is(t, err, store.ErrNotFound)
	mei := store.Account{Name: "mei", Role: "operator", Password: "$argon2id$…", MadeAt: f.Now}
	OK(t, f.AddAccount(t.Context(), mei, f.Act()))
	f.Pass(time.Second)
	li := store.Account{Name: "a.li-2", Role: "reader", Identity: "li@example.com", MadeAt: f.Now}
	OK(t, f.AddAccount(t.Context(), li, f.Act()))
	changed := mei
	changed.Role, changed.Password, changed.DisabledAt = "owner", "other", f.Now
	OK(t, f.ChangeAccount(t.Context(), "mei", store.AccountChange{Role: &changed.Role, Password: &changed.Password,
		DisabledAt: &changed.DisabledAt}, f.Act()))
	Equal(t, "changed", Must(f.Replica.Account(t.Context(), "mei"))(t), changed)
	Equal(t, "of the identity", Must(f.Replica.AccountOf(t.Context(), "li@example.com"))(t), li)
	for _, unknown := range []string{"", "Li@example.com", "\x00", "a.li-2"} {
		_, err = f.AccountOf(t.Context(), unknown)
		Is(t, err, store.ErrNotFound)
	}
	Is(t, f.AddAccount(t.Context(), mei, f.Act()), store.ErrNameTaken)
	Is(t, f.AddAccount(t.Context(), li, f.Act()), store.ErrNameTaken) // its own identity is not another's
	Is(t, f.AddAccount(t.Context(), store.Account{Name: "bo", Role: "reader", Identity: li.Identity}, f.Act()), store.ErrIdentityTaken)
	Is(t, f.ChangeAccount(t.Context(), "mei", store.AccountChange{Identity: &li.Identity}, f.Act()), store.ErrIdentityTaken)
	for _, unknown := range []string{"bo", "", "Mei", "\x00"} {
		Is(t, f.ChangeAccount(t.Context(), unknown, store.AccountChange{Role: &mei.Role}, f.Act()), store.ErrNotFound)
	}
	Equal(t, "list", Must(f.Accounts(t.Context()))(t), []store.Account{li, changed})
	acts := f.ListActs(t, store.AuditFilter{})
	Equal(t, "acts", len(acts), 3)
	Equal(t, "role in the act of a change", acts[0].Detail, "owner")
	OK(t, f.ChangeAccount(t.Context(), "mei", store.AccountChange{Identity: new("mei@example.com"), DisabledAt: &time.Time{}}, f.Act()))
	changed.Identity, changed.DisabledAt = "mei@example.com", time.Time{}
	Equal(t, "open again", Must(f.Account(t.Context(), "mei"))(t), changed)
	OK(t, f.ChangeAccount(t.Context(), "mei", store.AccountChange{Identity: new("")}, f.Act()))
	_, err = f.AccountOf(t.Context(), "mei@example.com")
	Is(t, err, store.ErrNotFound)
}

// Changes of one account through two replicas, each from the same read, do not undo each other; each writes its act.
func accountsAtOnce(t *testing.T, f *Fixture) {
	mei := store.Account{Name: "mei", Role: "owner", Password: "old", MadeAt: f.Now}
	OK(t, f.AddAccount(t.Context(), mei, f.Act()))
	want := mei
	want.Role, want.Password, want.Identity, want.DisabledAt = "reader", "new", "mei@example.com", f.Now
	changes := []store.AccountChange{{Role: &want.Role}, {Password: &want.Password}, {Identity: &want.Identity},
		{DisabledAt: &want.DisabledAt}}
	var acts []store.AuditEntry
	for range changes {
		acts = append(acts, f.Act())
	}
	f.atOnce(t, len(changes), func(log store.Store, i int) (bool, error) {
		return true, log.ChangeAccount(t.Context(), "mei", changes[i], acts[i])
	})
	Equal(t, "after all", Must(f.Account(t.Context(), "mei"))(t), want)
	Equal(t, "acts", len(f.ListActs(t, store.AuditFilter{})), 1+len(changes))
}

// One account for those who add the same name at once, and one for those who add the same identity.
func accountsAddedAtOnce(t *testing.T, f *Fixture) {
	var adding [8]store.Account
	var acts [8]store.AuditEntry
	var errs [8]error
	for i := range adding {
		adding[i], acts[i] = store.Account{Name: "mei", Role: "reader", Password: string(rune('a' + i))}, f.Act()
		if i >= 4 {
			adding[i].Name, adding[i].Identity = "li-"+adding[i].Password, "li@example.com"
		}
	}
	Together(8, func(i int) { errs[i] = f.Both(i).AddAccount(t.Context(), adding[i], acts[i]) })
	count := map[error]int{}
	for i, err := range errs {
		for _, known := range []error{nil, store.ErrNameTaken, store.ErrIdentityTaken} {
			if errors.Is(err, known) {
				count[known]++
			}
		}
		if got, missing := f.Account(t.Context(), adding[i].Name); err == nil && (missing != nil || got.Password != adding[i].Password) {
			t.Errorf("%d was said to be added: %v", i, missing)
		}
	}
	Equal(t, "answers", count, map[error]int{nil: 2, store.ErrNameTaken: 3, store.ErrIdentityTaken: 3})
	Equal(t, "accounts and acts", []int{len(Must(f.Accounts(t.Context()))(t)), len(f.ListActs(t, store.AuditFilter{}))}, []int{2, 2})
}

func sessions(t *testing.T, f *Fixture) {
	begin := func(n byte) store.Session {
		t.Helper()
		return Must(f.BeginSession(t.Context(), store.Session{ID: [32]byte{n}, Account: "mei", Bound: [32]byte{9, n}, Via: "oidc", Granted: "staff",
			Passed: n == 1}, 12*time.Hour, f.Act()))(t)
	}
	find := func(f store.Store, n byte) (store.Session, time.Time, error) {
		return f.Session(t.Context(), [32]byte{n})
	}
	first := begin(1)
	Equal(t, "begun", first, store.Session{ID: [32]byte{1}, Account: "mei", Bound: [32]byte{9, 1}, Via: "oidc", Granted: "staff", Passed: true,
		StartedAt: f.Now, SeenAt: f.Now})
	Equal(t, "acts", len(f.ListActs(t, store.AuditFilter{})), 1)
	f.Pass(time.Minute)
	got, now := Must2(find(f.Replica, 1))(t)
	Equal(t, "found", []any{got, now}, []any{first, f.Now})
	OK(t, f.SeeSession(t.Context(), first.ID))
	got, _ = Must2(find(f.Store, 1))(t)
	Equal(t, "seen", []time.Time{got.StartedAt, got.SeenAt}, []time.Time{first.StartedAt, f.Now})
	factor := f.Now
	Must(f.AddSecondFactor(t.Context(), store.SecondFactor{Account: "mei", Sealed: []byte("s")}, nil, f.Act()))(t)
	Equal(t, "of a session that begins", begin(2).FactorAt, time.Time{})
	got, _ = Must2(find(f.Replica, 2))(t)
	Equal(t, "of one that is found", []any{got.FactorAt, got.Passed}, []any{factor, false})
	OK(t, f.Replica.EndSession(t.Context(), [32]byte{2}))
	OK(t, f.EndSession(t.Context(), [32]byte{2}))
	OK(t, f.SeeSession(t.Context(), [32]byte{2}))
	_, _, err := find(f.Store, 2)
	Is(t, err, store.ErrNotFound)
	f.Pass(12*time.Hour - time.Minute)
	begin(3)
	_, _, err = find(f.Store, 1)
	OK(t, err) // to the microsecond
	f.Pass(time.Microsecond)
	begin(4)
	_, _, err = find(f.Store, 1)
	Is(t, err, store.ErrNotFound)
}
