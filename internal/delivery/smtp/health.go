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
	// crowdedAfter is how long a mail waits for a place at a server while another one is up.
	crowdedAfter = time.Second
)

// verdict reads an outcome for what it says about the server, not about the message. A refusal of the recipient
// or of the content is work done. After the final dot nothing is held against a server: it may have the mail.
func verdict(ctx context.Context, fail *delivery.Error) error {
	switch {
	case fail == nil:
		return nil
	case fail.Class == delivery.Unknown, fail.Status == 0 && ctx.Err() != nil:
		return failover.ErrNoVerdict
	case fail.Class == delivery.Rejected:
		return nil
	case fail.Status/100 != 4, fail.Status == 421:
		return failover.ErrFault // no readable reply, a wrong one, or a refusal of us
	case fail.Stage == delivery.StageRcpt, fail.Stage == delivery.StageData, fail.Stage == delivery.StageDot:
		return nil // "later" to this recipient or this message
	}
	return failover.ErrFault // no recipient has been named yet
}

// trial is one attempt that the breaker let in.
type trial struct {
	breaker *failover.Breaker
	done    func(error)
	once    sync.Once
	clock   *time.Timer
}

// newTrial starts the clock of an attempt; spare says whether another server is up.
func newTrial(breaker *failover.Breaker, done func(error), spare func() bool) *trial {
	t := &trial{breaker: breaker, done: done}
	t.clock = time.AfterFunc(slowAfter, func() {
		if spare() {
			t.report(failover.ErrFault, "slow: no outcome after "+slowAfter.String())
		}
	})
	return t
}

func (t *trial) end(ctx context.Context, fail *delivery.Error) {
	t.clock.Stop()
	fault := ""
	if fail != nil {
		fault = fail.Error()
	}
	t.report(verdict(ctx, fail), fault)
}

func (t *trial) report(verdict error, fault string) {
	t.once.Do(func() { t.breaker.Report(t.done, verdict, fault) })
}
