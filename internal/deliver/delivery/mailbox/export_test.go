package mailbox

import "time"

// Slow changes how long a mail to slow@simulator.test takes.
func (m *Mailbox) Slow(d time.Duration) { m.slow = d }
