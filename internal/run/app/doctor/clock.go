package doctor

import (
	"context"
	"fmt"
	"time"
)

// maxDrift is the largest difference from this machine's clock that another clock may have without
// a remark of compareClock. The other clocks are Redis's, which decides when waits end, and the
// database's, which decides when codes expire.
const maxDrift = time.Second

// compareClock reads another clock. It prints the difference between that clock and this machine's
// clock at the middle of the call. If the difference is more than maxDrift, it prints a remark. If
// the function read fails, compareClock prints nothing, because another check reports the failure.
func (d *doctor) compareClock(ctx context.Context, whose string, read func(context.Context) (time.Time, error)) {
	askedAt := d.now()
	at, err := read(ctx)
	if err != nil {
		return // the check of the part reports this
	}
	drift := at.Sub(askedAt.Add(d.now().Sub(askedAt) / 2))
	side := "ahead of"
	if drift < 0 {
		side = "behind"
	}
	what, said := "clock of "+whose, fmt.Sprintf("%d ms %s this machine's", drift.Abs().Milliseconds(), side)
	if drift.Abs() > maxDrift {
		d.remark(what, said+"; waits are right, but times differ by as much: run NTP on both")
		return
	}
	d.pass(what, said)
}
