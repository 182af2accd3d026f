package postgres

import (
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/batch"
)

// maxWriters is how many batches of Begins run at once; as many batches of checks, and of claims,
// run beside them. With two writers, one uses the database while the other waits for the disk. More
// writers would add contention and make the batches smaller.
const maxWriters = 2

// finishPause is the MinInterval of outcomes: the least time between the starts of two batches. All
// outcomes of 10 ms share one commit. The delay harms little, since few callers wait for an
// outcome.
const finishPause = 10 * time.Millisecond

// The calls of Begin, Check, Finish, Postpone, ConfirmRefund and EndAppEventAttempt. The key of a
// Begin in its batch is the key of the recipient's advisory lock. The key of any other call is a
// hash of its row's ID.
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
