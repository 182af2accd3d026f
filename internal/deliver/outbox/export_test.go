package outbox

import (
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// Held returns how many sends of all channels are in memory, and whether sends of the channel,
// strangers' apart, wait in the database since memory was full.
func (o *Outbox) Held(ch recipient.Channel) (held int, behind bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.flights), len(o.lanes[store.Queue{Channel: ch}].behind) > 0
}
