package pagetest

import (
	"time"

	"sendcode/internal/store"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// State is a state of the service, with the steps that lead to it.
type State struct {
	Rules []quota.Rule
	Steps []Step
}

// Step brings a world further.
type Step func(*World) error

type steps = []Step

// Address is the person's address.
const Address = "ana@example.com"

// New starts a world and runs the steps that lead to the state.
func (s State) New() (*World, error) {
	w := NewWorld(s.Rules...)
	for _, step := range s.Steps {
		if err := step(w); err != nil {
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

func send(address string) Step { return ask(map[string]any{"channel": "email", "to": address}) }

func again() Step { return ask(nil) }

func ask(what map[string]any) Step {
	return func(w *World) error { return w.Send(what) }
}

func settle(s store.Status) Step {
	return func(w *World) error { w.Codes.Settle(s); return nil }
}

func later(d time.Duration) Step {
	return func(w *World) error { w.Advance(d); return nil }
}

func lockOut(w *World) error { w.Codes.LockOut(); return nil }

func exhaust(w *World) error { w.Exhaust(); return nil }

func longCodes(w *World) error { w.SendLongCodes(); return nil }

func down(w *World) error { w.Codes.SetDown(true); return nil }

func immediately(s store.Status) Step {
	return func(w *World) error { w.Codes.Immediately = s; return nil }
}

// repeat runs the steps n times.
func repeat(n int, steps ...Step) Step {
	return func(w *World) error {
		for range n {
			for _, step := range steps {
				if err := step(w); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// spent sends n codes at intervals, all of them delivered.
func spent(n int, apart time.Duration) Step {
	return repeat(1, immediately(store.Sent), send(Address), repeat(n-1, later(apart), again()))
}

// networkSpentRules returns the default rules and a network's rule, which others have used up.
func networkSpentRules() []quota.Rule {
	return append(verificationtest.DefaultRules(),
		quota.Rule{Name: "office", Scope: quota.IP, Limit: 2, Window: 20 * time.Minute})
}
