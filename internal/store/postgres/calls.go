package postgres

import (
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/batch"
)

// maxWriters bounds the batches of Begins that run at once and, separately, those of checks and of
// claims. With two, one uses the database while the other waits for the disk. More would contend
// and make the batches smaller.
const maxWriters = 2

// finishPause is the least time between two batches of outcomes, and between two of confirmed
// refunds (batch.Batcher.MinInterval), so that calls within 10 ms share a commit. It does little
// harm, because few callers wait for an outcome to be written.
const finishPause = 10 * time.Millisecond

// Calls of these types run in batches. The batcher's key of a Begin is the key of the recipient's
// advisory lock. The key of the others is a hash of their row's ID, except that a renewCall, which
// no batcher runs, has none.
type (
	beginCall     = batch.Call[store.Intent, store.BeginAnswer]
	checkCall     = batch.Call[store.CheckRequest, store.CheckAnswer]
	finishCall    = batch.Call[store.Outcome, bool]
	postponeCall  = batch.Call[store.Postponement, bool]
	renewCall     = batch.Call[store.AttemptID, bool]
	refundEndCall = batch.Call[store.AttemptID, bool]
	eventEndCall  = batch.Call[store.AppEventOutcome, bool]
)

type rowChange interface{ GetAttemptID() store.AttemptID }
