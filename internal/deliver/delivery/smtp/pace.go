package smtp

import (
	"time"

	"sendcode/internal/deliver/delivery"
)

// pace allows perMinute mails to begin within any minute. The pool's lock guards it.
type pace struct {
	perMinute int         // 0: any number
	begun     []time.Time // when the last perMinute mails began, oldest first
	timer     *time.Timer // runs when the next mail may begin; see wakeAfter
}

// left returns the time until one more mail may begin; 0: now.
func (p *pace) left() time.Duration {
	if p.perMinute == 0 || len(p.begun) < p.perMinute {
		return 0
	}
	return max(0, time.Until(p.begun[0].Add(time.Minute)))
}

func (p *pace) begin() {
	if p.perMinute > 0 {
		p.begun = append(p.begun, time.Now())
		p.begun = p.begun[max(0, len(p.begun)-p.perMinute):]
	}
}

// forgetLast removes the mail that was counted last, which was allowed to begin but did not begin.
func (p *pace) forgetLast() {
	if n := len(p.begun); n > 0 {
		p.begun = p.begun[:n-1]
	}
}

// wakeAfter calls f once the time left is over. A pace has one timer, so the call of an earlier
// wakeAfter is dropped.
func (p *pace) wakeAfter(left time.Duration, f func()) {
	p.stop()
	p.timer = time.AfterFunc(left, f)
}

func (p *pace) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

func newPaceError(left time.Duration) *delivery.Error {
	return &delivery.Error{
		Class: delivery.Temporary, Stage: delivery.StageDial, About: delivery.AboutPace, RetryAfter: left,
		Err: delivery.ErrPace,
	}
}
