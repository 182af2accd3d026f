package rig

import (
	"sendcode/internal/store/sqlite"
	"sendcode/internal/verification"
)

func Keyed(to, key string) verification.Ask {
	a := AskFor(to)
	a.Key = key
	return a
}

// replayed asks what was asked before, and fails the test unless the answer is the first one's.
func (r *Rig) Replayed(ask verification.Ask, first verification.Answer) verification.Answer {
	r.Helper()
	a := r.Send(ask)
	if !a.Replayed || a.View.ID != first.View.ID || a.View.Send.ID != first.View.Send.ID {
		r.Fatalf("not a replay: %+v", a.View)
	}
	return a
}

func (r *Rig) Mails(want int) {
	r.Helper()
	if got := len(r.Post.All()); got != want {
		r.Errorf("%d mails, want %d", got, want)
	}
}

// fail makes the next call of a method of the log go wrong.
func (r *Rig) BreakStore(method string, how sqlite.Fault) {
	r.Store.SetFault(func(m string) sqlite.Fault {
		if m == method {
			return how
		}
		return sqlite.None
	})
}
