package audit

import (
	"testing"
	"time"
)

func secondFactors(t *testing.T, f *fixture) {
	codes := func(n ...byte) (all [][32]byte) {
		for _, c := range n {
			all = append(all, [32]byte{c})
		}
		return all
	}
	yes := func(did bool, err error) {
		t.Helper()
		ok(t, err)
		equal(t, "done", did, true)
	}
	no := func(did bool, err error) {
		t.Helper()
		ok(t, err)
		equal(t, "done", did, false)
	}
	_, err := f.SecondFactor(t.Context(), "mei")
	is(t, err, ErrNotFound)
	_, err = f.SecondFactor(t.Context(), "\x00")
	is(t, err, ErrNotFound)
	no(f.TakeStep(t.Context(), "mei", 1, []byte("sealed"), []byte("sealed")))
	no(f.PutRecoveryCodes(t.Context(), "mei", codes(1), f.act()))
	no(f.TakeRecoveryCode(t.Context(), "mei", [32]byte{1}, f.act()))
	no(f.DropSecondFactor(t.Context(), "mei", f.act()))
	equal(t, "acts of what was not done", len(f.acts(t, ActFilter{})), 0)

	mei := SecondFactor{Account: "mei", Sealed: []byte("sealed"), Step: 41}
	yes(f.AddSecondFactor(t.Context(), mei, codes(1, 2, 3), f.act()))
	mei.MadeAt, mei.Codes = f.now, 3
	f.pass(time.Second)
	no(f.AddSecondFactor(t.Context(), SecondFactor{Account: "mei", Sealed: []byte("another"), Step: 7}, codes(9), f.act()))
	yes(f.AddSecondFactor(t.Context(), SecondFactor{Account: "li", Sealed: []byte("li's"), Step: 1}, codes(1), f.act()))
	got, err := f.replica.SecondFactor(t.Context(), "mei")
	ok(t, err)
	equal(t, "found", got, mei)

	// A step is taken once, none before it is, and none of another secret.
	no(f.TakeStep(t.Context(), "mei", 41, mei.Sealed, mei.Sealed))
	no(f.TakeStep(t.Context(), "mei", 42, []byte("another"), mei.Sealed))
	yes(f.TakeStep(t.Context(), "mei", 42, mei.Sealed, []byte("sealed anew")))
	no(f.replica.TakeStep(t.Context(), "mei", 42, []byte("sealed anew"), mei.Sealed))
	no(f.replica.TakeStep(t.Context(), "mei", 41, []byte("sealed anew"), mei.Sealed))
	mei.Step, mei.Sealed = 42, []byte("sealed anew")

	yes(f.TakeRecoveryCode(t.Context(), "mei", [32]byte{2}, f.act()))
	no(f.replica.TakeRecoveryCode(t.Context(), "mei", [32]byte{2}, f.act()))
	no(f.TakeRecoveryCode(t.Context(), "mei", [32]byte{9}, f.act()))
	mei.Codes = 2
	got, err = f.SecondFactor(t.Context(), "mei")
	ok(t, err)
	equal(t, "after a step and a code", got, mei)
	yes(f.PutRecoveryCodes(t.Context(), "mei", codes(4, 5, 6, 6), f.act()))
	no(f.TakeRecoveryCode(t.Context(), "mei", [32]byte{1}, f.act()))
	yes(f.TakeRecoveryCode(t.Context(), "mei", [32]byte{6}, f.act()))
	equal(t, "acts", len(f.acts(t, ActFilter{})), 5)

	yes(f.DropSecondFactor(t.Context(), "mei", f.act()))
	_, err = f.replica.SecondFactor(t.Context(), "mei")
	is(t, err, ErrNotFound)
	no(f.TakeRecoveryCode(t.Context(), "mei", [32]byte{4}, f.act()))
	yes(f.TakeRecoveryCode(t.Context(), "li", [32]byte{1}, f.act()))
	for _, wrong := range []SecondFactor{{Account: "mei"}, {Sealed: []byte("x")}, {Account: "\x00", Sealed: []byte("x")}, {Account: "mei", Sealed: make([]byte, 513)}} {
		_, err = f.AddSecondFactor(t.Context(), wrong, nil, f.act())
		is(t, err, ErrBadRequest)
	}
	for _, do := range []func(Act) (bool, error){
		func(a Act) (bool, error) { return f.AddSecondFactor(t.Context(), mei, nil, a) },
		func(a Act) (bool, error) { return f.DropSecondFactor(t.Context(), "li", a) },
		func(a Act) (bool, error) { return f.PutRecoveryCodes(t.Context(), "li", nil, a) },
		func(a Act) (bool, error) { return f.TakeRecoveryCode(t.Context(), "li", [32]byte{1}, a) },
	} {
		_, err = do(f.act(func(a *Act) { a.What = "" }))
		is(t, err, ErrBadRequest)
	}
	_, err = f.SecondFactor(t.Context(), "mei")
	is(t, err, ErrNotFound)
}

// One code for two who come at once, through two replicas.
func secondFactorsAtOnce(t *testing.T, f *fixture) {
	_, err := f.AddSecondFactor(t.Context(), SecondFactor{Account: "mei", Sealed: []byte("s")}, [][32]byte{{1}}, f.act())
	ok(t, err)
	var act [8]Act
	for i := range act {
		act[i] = f.act()
	}
	var steps, codes [8]bool
	together(8, func(i int) {
		log := []Store{f.Store, f.replica}[i%2]
		steps[i], _ = log.TakeStep(t.Context(), "mei", 7, []byte("s"), []byte("s"))
		codes[i], _ = log.TakeRecoveryCode(t.Context(), "mei", [32]byte{1}, act[i])
	})
	count := func(list [8]bool) (n int) {
		for _, taken := range list {
			if taken {
				n++
			}
		}
		return n
	}
	equal(t, "times that a step and a code were taken", []int{count(steps), count(codes)}, []int{1, 1})
}
