package audit

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func accounts(t *testing.T, f *fixture) {
	_, err := f.Account(t.Context(), "mei")
	is(t, err, ErrNotFound)
	_, err = f.Account(t.Context(), "\x00")
	is(t, err, ErrNotFound)
	mei := Account{Name: "mei", Role: "operator", Password: "$argon2id$…", MadeAt: f.now}
	ok(t, f.AddAccount(t.Context(), mei, f.act()))
	f.pass(time.Second)
	_, err = f.AccountOf(t.Context(), "")
	is(t, err, ErrNotFound)
	li := Account{Name: "a.li-2", Role: "reader", Identity: "li@example.com", MadeAt: f.now}
	ok(t, f.AddAccount(t.Context(), li, f.act()))
	changed := mei
	changed.Role, changed.Password, changed.DisabledAt = "owner", "other", f.now
	ok(t, f.ChangeAccount(t.Context(), "mei", AccountChange{Role: &changed.Role, Password: &changed.Password, DisabledAt: &changed.DisabledAt}, f.act()))
	got, err := f.replica.Account(t.Context(), "mei")
	ok(t, err)
	equal(t, "changed", got, changed)
	got, err = f.replica.AccountOf(t.Context(), "li@example.com")
	ok(t, err)
	equal(t, "of the identity", got, li)
	for _, nobody := range []string{"", "Li@example.com", "\x00", "a.li-2"} {
		_, err = f.AccountOf(t.Context(), nobody)
		is(t, err, ErrNotFound)
	}
	is(t, f.AddAccount(t.Context(), mei, f.act()), ErrNameTaken)
	is(t, f.AddAccount(t.Context(), li, f.act()), ErrNameTaken) // its own identity is not another's
	is(t, f.AddAccount(t.Context(), Account{Name: "bo", Role: "reader", Identity: li.Identity}, f.act()), ErrIdentityTaken)
	is(t, f.ChangeAccount(t.Context(), "mei", AccountChange{Identity: &li.Identity}, f.act()), ErrIdentityTaken)
	for _, nobody := range []string{"bo", "", "Mei", "\x00"} {
		is(t, f.ChangeAccount(t.Context(), nobody, AccountChange{Role: &mei.Role}, f.act()), ErrNotFound)
	}
	list, err := f.Accounts(t.Context())
	ok(t, err)
	equal(t, "list", list, []Account{li, changed})
	acts := f.acts(t, ActFilter{})
	equal(t, "acts", len(acts), 3)
	equal(t, "role in the act of a change", acts[0].Detail, "owner")
	for _, bad := range []Account{
		{Name: "", Role: "owner"}, {Name: "Mei", Role: "owner"}, {Name: "m i", Role: "owner"}, {Name: strings.Repeat("m", 33), Role: "owner"},
		{Name: "mei", Role: "root"}, {Name: "mei"}, {Name: "mei", Role: "owner", Password: "\x00"}, {Name: "mei\n", Role: "owner"},
	} {
		is(t, f.AddAccount(t.Context(), bad, f.act()), ErrBadRequest)
	}
	noOne := f.act(func(a *Act) { a.Who = "" })
	is(t, f.AddAccount(t.Context(), Account{Name: "bo", Role: "reader"}, noOne), ErrBadRequest)
	is(t, f.ChangeAccount(t.Context(), "mei", AccountChange{Role: &mei.Role}, noOne), ErrBadRequest)
	for _, wrong := range []AccountChange{{Role: new("root")}, {Role: new("")}, {Password: new("\x00")}, {Identity: new("\xff")}} {
		is(t, f.ChangeAccount(t.Context(), "mei", wrong, f.act()), ErrBadRequest)
	}
	got, err = f.Account(t.Context(), "mei")
	ok(t, err)
	equal(t, "without its act", got, changed)
	ok(t, f.ChangeAccount(t.Context(), "mei", AccountChange{Identity: new("mei@example.com"), DisabledAt: &time.Time{}}, f.act()))
	changed.Identity, changed.DisabledAt = "mei@example.com", time.Time{}
	got, err = f.Account(t.Context(), "mei")
	ok(t, err)
	equal(t, "open again", got, changed)
	ok(t, f.ChangeAccount(t.Context(), "mei", AccountChange{Identity: new("")}, f.act()))
	_, err = f.AccountOf(t.Context(), "mei@example.com")
	is(t, err, ErrNotFound)
}

// Changes of one account through two replicas, each from the same read, do not undo each other; each writes its act.
func accountsAtOnce(t *testing.T, f *fixture) {
	mei := Account{Name: "mei", Role: "owner", Password: "old", MadeAt: f.now}
	ok(t, f.AddAccount(t.Context(), mei, f.act()))
	want := mei
	want.Role, want.Password, want.Identity, want.DisabledAt = "reader", "new", "mei@example.com", f.now
	changes := []AccountChange{{Role: &want.Role}, {Password: &want.Password}, {Identity: &want.Identity}, {DisabledAt: &want.DisabledAt}}
	acts, errs := make([]Act, len(changes)), make([]error, len(changes))
	for i := range acts {
		acts[i] = f.act()
	}
	together(len(changes), func(i int) { errs[i] = f.both(i).ChangeAccount(t.Context(), "mei", changes[i], acts[i]) })
	for _, err := range errs {
		ok(t, err)
	}
	got, err := f.Account(t.Context(), "mei")
	ok(t, err)
	equal(t, "after all", got, want)
	equal(t, "acts", len(f.acts(t, ActFilter{})), 1+len(changes))
}

// One account for those who add the same name at once, and one for those who add the same identity.
func accountsAddedAtOnce(t *testing.T, f *fixture) {
	var adding [8]Account
	var acts [8]Act
	var errs [8]error
	for i := range adding {
		adding[i], acts[i] = Account{Name: "mei", Role: "reader", Password: string(rune('a' + i))}, f.act()
		if i >= 4 {
			adding[i].Name, adding[i].Identity = "li-"+adding[i].Password, "li@example.com"
		}
	}
	together(8, func(i int) { errs[i] = f.both(i).AddAccount(t.Context(), adding[i], acts[i]) })
	count := map[error]int{}
	for i, err := range errs {
		for _, known := range []error{nil, ErrNameTaken, ErrIdentityTaken} {
			if errors.Is(err, known) {
				count[known]++
			}
		}
		if got, missing := f.Account(t.Context(), adding[i].Name); err == nil && (missing != nil || got.Password != adding[i].Password) {
			t.Errorf("%d was said to be added: %v", i, missing)
		}
	}
	equal(t, "answers", count, map[error]int{nil: 2, ErrNameTaken: 3, ErrIdentityTaken: 3})
	list, err := f.Accounts(t.Context())
	ok(t, err)
	equal(t, "accounts and acts", []int{len(list), len(f.acts(t, ActFilter{}))}, []int{2, 2})
}

func sessions(t *testing.T, f *fixture) {
	begin := func(n byte) Session {
		t.Helper()
		s, err := f.BeginSession(t.Context(), Session{ID: [32]byte{n}, Account: "mei", Bound: [32]byte{9, n}, Via: "oidc", Granted: "staff", Passed: n == 1}, 12*time.Hour, f.act())
		ok(t, err)
		return s
	}
	find := func(f Store, n byte) (Session, time.Time, error) { return f.Session(t.Context(), [32]byte{n}) }
	first := begin(1)
	equal(t, "begun", first, Session{ID: [32]byte{1}, Account: "mei", Bound: [32]byte{9, 1}, Via: "oidc", Granted: "staff", Passed: true, StartedAt: f.now, SeenAt: f.now})
	equal(t, "acts", len(f.acts(t, ActFilter{})), 1)
	f.pass(time.Minute)
	got, now, err := find(f.replica, 1)
	ok(t, err)
	equal(t, "found", []any{got, now}, []any{first, f.now})
	ok(t, f.SeeSession(t.Context(), first.ID))
	got, _, err = find(f.Store, 1)
	ok(t, err)
	equal(t, "seen", []time.Time{got.StartedAt, got.SeenAt}, []time.Time{first.StartedAt, f.now})
	factor := f.now
	_, err = f.AddSecondFactor(t.Context(), SecondFactor{Account: "mei", Sealed: []byte("s")}, nil, f.act())
	ok(t, err)
	equal(t, "of a session that begins", begin(2).FactorAt, time.Time{})
	got, _, err = find(f.replica, 2)
	ok(t, err)
	equal(t, "of one that is found", []any{got.FactorAt, got.Passed}, []any{factor, false})
	ok(t, f.replica.EndSession(t.Context(), [32]byte{2}))
	ok(t, f.EndSession(t.Context(), [32]byte{2}))
	ok(t, f.SeeSession(t.Context(), [32]byte{2}))
	_, _, err = find(f.Store, 2)
	is(t, err, ErrNotFound)
	f.pass(12*time.Hour - time.Minute)
	begin(3)
	_, _, err = find(f.Store, 1)
	ok(t, err) // to the microsecond
	f.pass(time.Microsecond)
	begin(4)
	_, _, err = find(f.Store, 1)
	is(t, err, ErrNotFound)
	_, err = f.BeginSession(t.Context(), Session{ID: [32]byte{5}, Account: "\x00"}, time.Hour, f.act())
	is(t, err, ErrBadRequest)
	_, err = f.BeginSession(t.Context(), Session{ID: [32]byte{5}, Account: "mei"}, time.Hour, f.act(func(a *Act) { a.What = "" }))
	is(t, err, ErrBadRequest)
	_, _, err = find(f.Store, 5)
	is(t, err, ErrNotFound)
}
