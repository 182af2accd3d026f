package smtp

import (
	"context"
	"sync"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/failover"
)

const (
	// slowAfter is when a mail that is still under way counts as a fault, provided another server is up: by then the
	// recipient has waited long.
	slowAfter = 5 * time.Second
	// crowdedAfter is how long a mail waits for a connection to a server while another one is up.
	crowdedAfter = time.Second
)

// verdict returns what an outcome says about the server, not about the message: fail itself, if the server is at fault. A refusal of the
// recipient or of the content is work done. After the final dot nothing is held against a server: it may have the mail.
func verdict(ctx context.Context, fail *delivery.Error) error {
	switch {
	case fail == nil:
		return nil
	case fail.Class == delivery.Unknown, fail.Status == 0 && ctx.Err() != nil:
		return failover.ErrNoVerdict
	case fail.Class == delivery.Rejected:
		return nil
	case fail.Status/100 != 4, fail.Status == 421:
		return fail // no readable reply, a wrong one, or a refusal of us
	case fail.Stage == delivery.StageRcpt, fail.Stage == delivery.StageData, fail.Stage == delivery.StageDot:
		return nil // "later" to this recipient or this message
	}
	return fail // no recipient has been named yet
}

// try starts an attempt; nil if the breaker does not admit it. end must be called with the verdict on it. An attempt that takes longer than
// slowAfter is a fault if another server is up by then, as spare says.
func (s *client) try(spare func() bool) (end func(verdict error)) {
	report, ok := s.health.Allow()
	if !ok {
		return nil
	}
	var once sync.Once
	slow := time.AfterFunc(slowAfter, func() {
		if spare() {
			once.Do(func() { report(errSlow) })
		}
	})
	return func(verdict error) {
		slow.Stop()
		once.Do(func() { report(verdict) })
	}
}
