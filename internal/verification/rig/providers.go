package rig

import (
	"github.com/google/uuid"

	"sendcode/internal/feedback"
)

func (r *Rig) Hear(want feedback.Result, t feedback.ProviderEvent) {
	r.Helper()
	t.Provider = "postmark"
	got, err := r.Svc.Providers.Ingest(r.Context(), t)
	if err != nil || got != want {
		r.Errorf("%s %s: %q, %v; wanted %q", t.Kind, t.Detail, got, err, want)
	}
}

// toldOf makes a send and gives the send.
func (r *Rig) ToldOf(to string) uuid.UUID {
	r.Helper()
	return uuid.MustParse(r.Send(AskFor(to)).View.Send.ID)
}
