package outbox

import "sendcode/internal/recipient"

// Held returns how many sends of all channels are in memory, and whether sends of the channel wait in the database since memory was full.
func (o *Outbox) Held(ch recipient.Channel) (held int, behind bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.flights), o.lanes[ch].behind
}
