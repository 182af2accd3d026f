package outbox

import (
	"context"
	"fmt"
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
	for name, c := range map[string]struct {
		out   store.Outcome
		doubt bool
		want  string
	}{
		"suppressed":            {store.Outcome{Status: store.Failed, Reason: store.ReasonSuppressed, Refund: true, BadAddress: true}, true, "unknown suppressed false false"},
		"paused":                {store.Outcome{Status: store.Failed, Reason: store.ReasonPaused, Refund: true}, true, "unknown paused false false"},
		"no such mailbox":       {store.Outcome{Status: store.Failed, Reason: "rejected", Refund: true, BadAddress: true}, true, "failed rejected true true"},
		"refused":               {store.Outcome{Status: store.Failed, Reason: "rejected", Refund: true}, true, "unknown rejected false false"},
		"sent":                  {store.Outcome{Status: store.Sent}, true, "sent  false false"},
		"suppressed, no doubt":  {store.Outcome{Status: store.Failed, Reason: store.ReasonSuppressed, Refund: true, BadAddress: true}, false, "failed suppressed true true"},
		"unknown without doubt": {store.Outcome{Status: store.Unknown}, false, "unknown  false false"},
	} {
		got := o.knownOutcome(t.Context(), store.Send{InDoubt: c.doubt}, c.out)
		servertest.Same(t, name, fmt.Sprint(got.Status, " ", got.Reason, " ", got.Refund, " ", got.BadAddress), c.want)
	}
}
