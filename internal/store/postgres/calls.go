package postgres

import (
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/batch"
)

// maxWriters is the largest number of batches of calls of Begin that run at once. The same limit
// applies separately to batches of checks and to batches of claims. With two writers, one writer
// uses the database while the other waits for the disk. More writers would cause contention and
// make the batches smaller.
const maxWriters = 2

// finishPause is the least time between two batches of outcomes (batch.Batcher.MinInterval), so
// outcomes that arrive within 10 ms share one commit. The delay does little harm, because few
// callers wait for an outcome to be written.
const finishPause = 10 * time.Millisecond

// These are the calls that run in batches. Each call has a key in the batcher. The key of a call of
// Begin is the key of the recipient's advisory lock. The key of any other call is a hash of the ID
// of its row.
type (
	beginCall     = batch.Call[store.Intent, store.BeginAnswer]
	checkCall     = batch.Call[store.CheckRequest, store.CheckAnswer]
	finishCall    = batch.Call[store.Outcome, bool]
	postponeCall  = batch.Call[store.Postponement, bool]
	renewCall     = batch.Call[store.AttemptID, bool]
	refundEndCall = batch.Call[store.AttemptID, bool]
	eventEndCall  = batch.Call[store.AppEventOutcome, bool]
)

// rowChange is a change of the row that the AttemptID names.
type rowChange interface{ GetAttemptID() store.AttemptID }
