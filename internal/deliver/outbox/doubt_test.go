package outbox

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// noDetails is a database that has lost all sends.
type noDetails struct{ Store }

func (noDetails) SendDetails(context.Context, uuid.UUID) (store.SendDetails, error) {
	return store.SendDetails{}, fault.NotFound
}

// A send that an earlier attempt may have delivered fails for good only if a server says that its
// address accepts no messages. A suppression of the recipient does not show what became of the
// earlier attempt.
func TestOutcomeOfASendInDoubt(t *testing.T) {
	o := &Outbox{Dependencies: Dependencies{Store: noDetails{}}}
	type outcome struct {
		status             store.Status
		reason             string
		refund, badAddress bool
	}
	failed := func(reason string, badAddress bool) store.Outcome {
		return store.Outcome{Status: store.Failed, Reason: reason, Refund: true, BadAddress: badAddress}
	}
	for name, c := range map[string]struct {
		out   store.Outcome
		doubt bool
		want  outcome
	}{
		"suppressed":            {failed(store.ReasonSuppressed, true), true, outcome{store.Unknown, "suppressed", false, false}},
		"paused":                {failed(store.ReasonPaused, false), true, outcome{store.Unknown, "paused", false, false}},
		"no such mailbox":       {failed("rejected", true), true, outcome{store.Failed, "rejected", true, true}},
		"refused":               {failed("rejected", false), true, outcome{store.Unknown, "rejected", false, false}},
		"sent":                  {store.Outcome{Status: store.Sent}, true, outcome{store.Sent, "", false, false}},
		"suppressed, no doubt":  {failed(store.ReasonSuppressed, true), false, outcome{store.Failed, "suppressed", true, true}},
		"unknown without doubt": {store.Outcome{Status: store.Unknown}, false, outcome{store.Unknown, "", false, false}},
	} {
		got := o.knownOutcome(t.Context(), store.Send{InDoubt: c.doubt}, c.out)
		servertest.Same(t, name, outcome{got.Status, got.Reason, got.Refund, got.BadAddress}, c.want)
	}
}
