package outbox

import (
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// Held returns how many sends of all channels are in memory, and whether sends of the channel,
// strangers' apart, wait in the database since memory was full.
func (o *Outbox) Held(ch recipient.Channel) (held int, behind bool) {
	o.leases.mu.Lock()
	held = len(o.leases.flights)
	o.leases.mu.Unlock()
	o.lanesMu.Lock()
	defer o.lanesMu.Unlock()
	return held, len(o.lanes[store.Queue{Channel: ch}].behind) > 0
}
