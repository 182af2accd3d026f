package outbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/bucketnames"
	"sendcode/internal/store"
	"sendcode/quota"
)

// A rejection is a failure at the instant at which it is recorded, also if the limiter hears of it
// later.
func TestRejectionsAreRecordedAsFailures(t *testing.T) {
	s := newIdle(t)
	send := store.Send{ID: uuid.UUID{7}, App: "shop", Channel: recipient.Email}
	failing := login
	failing.Policy.Rules = []quota.Rule{{Name: "failures", Scope: quota.Failures, Limit: 1, Window: time.Hour}}
	s.Policy.Change(policy.Set{Purposes: map[string]policy.Purpose{"login": failing}})
	s.db.rows = map[uuid.UUID]store.Status{send.ID: store.Failed}
	want := fmt.Sprintf("record %s 1h0m0s %s", bucketnames.Failures("shop", recipient.Email, send.Recipient), send.ID[:])
	s.countBadAddress(t.Context(), send)
	s.wants("at once", want)
	s.gone = true
	s.countBadAddress(t.Context(), send)
	s.gone = false
	s.stop()
	s.wants("after the limiter was away", want)
}
