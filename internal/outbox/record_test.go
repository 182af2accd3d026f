package outbox

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"sendcode/internal/buckets"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// A rejection is a failure at the instant at which it is recorded, also if the limiter hears of it
// later.
func TestRejectionsAreRecordedAsFailures(t *testing.T) {
	s := newIdle(t)
	send := store.Send{ID: uuid.UUID{7}, App: "shop", Channel: recipient.Email}
	want := fmt.Sprintf("failure %s %s", buckets.Failures("shop", recipient.Email, send.Recipient), send.ID[:])
	s.recordFailure(send)
	s.wants("at once", want)
	s.gone = true
	s.recordFailure(send)
	s.gone = false
	s.stop()
	s.wants("after the limiter was away", want)
}
