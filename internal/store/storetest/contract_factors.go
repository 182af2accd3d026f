package storetest

import (
	"testing"
	"time"

	"sendcode/internal/store"
)

func secondFactors(t *testing.T, f *Fixture) {
	codes := func(n ...byte) (all [][32]byte) {
		for _, c := range n {
			all = append(all, [32]byte{c})
		}
		return all
	}
	yes := func(did bool, err error) { t.Helper(); OK(t, err); Equal(t, "done", did, true) }
	no := func(did bool, err error) { t.Helper(); OK(t, err); Equal(t, "done", did, false) }
	_, err := f.SecondFactor(t.Context(), "mei")
	Is(t, err, store.ErrNotFound)
	_, err = f.SecondFactor(t.Context(), "\x00")
	Is(t, err, store.ErrNotFound)
	no(f.TakeStep(t.Context(), "mei", 1, []byte("sealed"), []byte("sealed")))
	no(f.PutRecoveryCodes(t.Context(), "mei", codes(1), f.Act()))
	no(f.TakeRecoveryCode(t.Context(), "mei", [32]byte{1}, f.Act()))
	no(f.DropSecondFactor(t.Context(), "mei", f.Act()))
	Equal(t, "acts of what was not done", len(f.ListActs(t, store.AuditFilter{})), 0)

	mei := store.SecondFactor{Account: "mei", Sealed: []byte("sealed"), Step: 41}
	yes(f.AddSecondFactor(t.Context(), mei, codes(1, 2, 3), f.Act()))
	mei.MadeAt, mei.Codes = f.Now, 3
	f.Pass(time.Second)
	no(f.AddSecondFactor(t.Context(), store.SecondFactor{Account: "mei", Sealed: []byte("another"), Step: 7}, codes(9), f.Act()))
	yes(f.AddSecondFactor(t.Context(), store.SecondFactor{Account: "li", Sealed: []byte("li's"), Step: 1}, codes(1), f.Act()))
	Equal(t, "found", Must(f.Replica.SecondFactor(t.Context(), "mei"))(t), mei)

	// A step is taken once, none before it is, and none of another secret.
	no(f.TakeStep(t.Context(), "mei", 41, mei.Sealed, mei.Sealed))
	no(f.TakeStep(t.Context(), "mei", 42, []byte("another"), mei.Sealed))
	yes(f.TakeStep(t.Context(), "mei", 42, mei.Sealed, []byte("sealed anew")))
	no(f.Replica.TakeStep(t.Context(), "mei", 42, []byte("sealed anew"), mei.Sealed))
	no(f.Replica.TakeStep(t.Context(), "mei", 41, []byte("sealed anew"), mei.Sealed))
	mei.Step, mei.Sealed = 42, []byte("sealed anew")

	yes(f.TakeRecoveryCode(t.Context(), "mei", [32]byte{2}, f.Act()))
	no(f.Replica.TakeRecoveryCode(t.Context(), "mei", [32]byte{2}, f.Act()))
	no(f.TakeRecoveryCode(t.Context(), "mei", [32]byte{9}, f.Act()))
	mei.Codes = 2
	Equal(t, "after a step and a code", Must(f.SecondFactor(t.Context(), "mei"))(t), mei)
	yes(f.PutRecoveryCodes(t.Context(), "mei", codes(4, 5, 6, 6), f.Act()))
	no(f.TakeRecoveryCode(t.Context(), "mei", [32]byte{1}, f.Act()))
	yes(f.TakeRecoveryCode(t.Context(), "mei", [32]byte{6}, f.Act()))
	Equal(t, "acts", len(f.ListActs(t, store.AuditFilter{})), 5)

	yes(f.DropSecondFactor(t.Context(), "mei", f.Act()))
	_, err = f.Replica.SecondFactor(t.Context(), "mei")
	Is(t, err, store.ErrNotFound)
	no(f.TakeRecoveryCode(t.Context(), "mei", [32]byte{4}, f.Act()))
	yes(f.TakeRecoveryCode(t.Context(), "li", [32]byte{1}, f.Act()))
}

// One code for two who come at once, through two replicas.
func secondFactorsAtOnce(t *testing.T, f *Fixture) {
	Must(f.AddSecondFactor(t.Context(), store.SecondFactor{Account: "mei", Sealed: []byte("s")}, [][32]byte{{1}}, f.Act()))(t)
	var acts [8]store.AuditEntry
	for i := range acts {
		acts[i] = f.Act()
	}
	Equal(t, "steps", f.atOnce(t, 8, func(log store.Store, _ int) (bool, error) {
		return log.TakeStep(t.Context(), "mei", 7, []byte("s"), []byte("s"))
	}), 1)
	Equal(t, "codes", f.atOnce(t, 8, func(log store.Store, i int) (bool, error) {
		return log.TakeRecoveryCode(t.Context(), "mei", [32]byte{1}, acts[i])
	}), 1)
}
