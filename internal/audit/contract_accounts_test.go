package audit

import (
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
	ok(t, f.PutAccount(t.Context(), mei, f.act()))
	f.pass(time.Second)
	_, err = f.AccountOf(t.Context(), "")
	is(t, err, ErrNotFound)
	li := Account{Name: "a.li-2", Role: "reader", Identity: "li@example.com", MadeAt: f.now}
	ok(t, f.PutAccount(t.Context(), li, f.act()))
	changed := mei
	changed.Role, changed.Password, changed.DisabledAt, changed.MadeAt = "owner", "other", f.now, time.Time{}
	ok(t, f.PutAccount(t.Context(), changed, f.act()))
	changed.MadeAt = mei.MadeAt
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
	second := mei
	second.Identity = li.Identity
	is(t, f.PutAccount(t.Context(), second, f.act()), ErrBadRequest)
	list, err := f.Accounts(t.Context())
	ok(t, err)
	equal(t, "list", list, []Account{li, changed})
	equal(t, "acts", len(f.acts(t, ActFilter{})), 3)
	for _, bad := range []Account{
		{Name: "", Role: "owner"}, {Name: "Mei", Role: "owner"}, {Name: "m i", Role: "owner"}, {Name: strings.Repeat("m", 33), Role: "owner"},
		{Name: "mei", Role: "root"}, {Name: "mei"}, {Name: "mei", Role: "owner", Password: "\x00"}, {Name: "mei\n", Role: "owner"},
	} {
		is(t, f.PutAccount(t.Context(), bad, f.act()), ErrBadRequest)
	}
	is(t, f.PutAccount(t.Context(), mei, f.act(func(a *Act) { a.Who = "" })), ErrBadRequest)
	got, err = f.Account(t.Context(), "mei")
	ok(t, err)
	equal(t, "without its act", got, changed)
}

func sessions(t *testing.T, f *fixture) {
	begin := func(n byte) Session {
		t.Helper()
		s, err := f.BeginSession(t.Context(), Session{ID: [32]byte{n}, Account: "mei", Bound: [32]byte{9, n}, Via: "oidc", Granted: "staff", Passed: n == 1}, 12*time.Hour, f.act())
		ok(t, err)
		return s
	}
	find := func(f Log, n byte) (Session, time.Time, error) { return f.Session(t.Context(), [32]byte{n}) }
	first := begin(1)
	equal(t, "begun", first, Session{ID: [32]byte{1}, Account: "mei", Bound: [32]byte{9, 1}, Via: "oidc", Granted: "staff", Passed: true, StartedAt: f.now, SeenAt: f.now})
	equal(t, "acts", len(f.acts(t, ActFilter{})), 1)
	f.pass(time.Minute)
	got, now, err := find(f.replica, 1)
	ok(t, err)
	equal(t, "found", []any{got, now}, []any{first, f.now})
	ok(t, f.SeeSession(t.Context(), first.ID))
	got, _, err = find(f, 1)
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
	_, _, err = find(f, 2)
	is(t, err, ErrNotFound)
	f.pass(12*time.Hour - time.Minute)
	begin(3)
	_, _, err = find(f, 1)
	ok(t, err) // to the microsecond
	f.pass(time.Microsecond)
	begin(4)
	_, _, err = find(f, 1)
	is(t, err, ErrNotFound)
	_, err = f.BeginSession(t.Context(), Session{ID: [32]byte{5}, Account: "\x00"}, time.Hour, f.act())
	is(t, err, ErrBadRequest)
	_, err = f.BeginSession(t.Context(), Session{ID: [32]byte{5}, Account: "mei"}, time.Hour, f.act(func(a *Act) { a.What = "" }))
	is(t, err, ErrBadRequest)
	_, _, err = find(f, 5)
	is(t, err, ErrNotFound)
}
