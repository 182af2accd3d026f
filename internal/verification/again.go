package verification

import (
	"context"
	"time"

	"sendcode/internal/store"
)

// patient is how long a row may wait in memory and still be taken as it was read.
const patient = 2 * time.Second

// readAgain is the work of a flight, with the verification as it is now where that waited for long: meanwhile it may have been
// approved or canceled, or its recipient erased. Where the log does not answer, the work is as it was.
func (o *outbox) readAgain(ctx context.Context, f *flight) store.Work {
	w := f.work
	if o.Now().Sub(f.read) < patient {
		return w
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	if v, _, _, err := o.Log.Verification(ctx, w.Verification.ID); err == nil {
		w.Verification = v
	}
	return w
}
