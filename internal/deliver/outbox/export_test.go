package outbox

import (
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// Held returns how many sends of all channels are in memory, and whether sends of the channel,
// strangers' apart, wait in the database since memory was full.
func (o *Outbox) Held(ch recipient.Channel) (held int, behind bool) {
	o.leases.mu.Lock()
	held = len(o.leases.flights)
	o.leases.mu.Unlock()
	o.update(o.lanes[store.Queue{Channel: ch}], func(l *lane, _ time.Time) { behind = len(l.behind) > 0 })
	return held, behind
}
