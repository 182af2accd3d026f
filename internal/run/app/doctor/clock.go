package doctor

import (
	"context"
	"fmt"
	"time"
)

// maxDrift is the difference between two clocks above which compareClock prints a remark. Redis's
// clock decides when waits end, and the database's decides when codes expire.
const maxDrift = time.Second

// compareClock prints the difference between the clock that read returns and this machine's clock
// at the middle of the call, as a remark if it is more than maxDrift. If read fails, compareClock
// prints nothing, because the check of the part reports the failure.
func (d *doctor) compareClock(ctx context.Context, whose string, read func(context.Context) (time.Time, error)) {
	askedAt := d.now()
	at, err := read(ctx)
	if err != nil {
		return
	}
	drift := at.Sub(askedAt.Add(d.now().Sub(askedAt) / 2))
	side := "ahead of"
	if drift < 0 {
		side = "behind"
	}
	what, text := "clock of "+whose, fmt.Sprintf("%d ms %s this machine's", drift.Abs().Milliseconds(), side)
	if drift.Abs() > maxDrift {
		d.remark(what, text+"; waits are right, but times differ by as much: run NTP on both")
		return
	}
	d.pass(what, text)
}
