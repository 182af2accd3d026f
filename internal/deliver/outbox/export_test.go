package outbox

import (
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// Held returns how many sends of all channels are in memory. behind is true if memory was full and
// sends of the channel therefore wait in the database; the lane of strangers does not count.
func (o *Outbox) Held(ch recipient.Channel) (held int, behind bool) {
	o.leases.mu.Lock()
	held = len(o.leases.flights)
	o.leases.mu.Unlock()
	o.update(o.lanes[store.Queue{Channel: ch}], func(l *lane, _ time.Time) { behind = len(l.behind) > 0 })
	return held, behind
}
