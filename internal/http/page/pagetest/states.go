package pagetest

import (
	"time"

	"sendcode/internal/store"
)

// Step moves a world towards a state.
type Step func(*World)

type steps = []Step

// Address is the person's address.
const Address = "ana@example.com"

func send(address string) Step { return ask(map[string]any{"channel": "email", "to": address}) }

func ask(what map[string]any) Step {
	return func(w *World) {
		if err := w.Send(what); err != nil {
			panic(err)
		}
	}
}

func settle(s store.Status) Step {
	return func(w *World) { w.Codes.Settle(s) }
}

func later(d time.Duration) Step {
	return func(w *World) { w.Advance(d) }
}

func lockOut(w *World) { w.Codes.LockOut() }

func down(w *World) { w.Codes.SetDown(true) }

func immediately(s store.Status) Step {
	return func(w *World) { w.Codes.Immediately = s }
}

// spent returns a step that sends n codes at intervals. Each has the status Sent at once.
func spent(n int, apart time.Duration) Step {
	return func(w *World) {
		immediately(store.Sent)(w)
		send(Address)(w)
		for range n - 1 {
			w.Advance(apart)
			ask(nil)(w)
		}
	}
}
