package postgres

import (
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/batch"
)

// maxWriters is how many batches of Begins, and of checks, are under way at once. With two writers,
// one uses the database while the other waits for the disk; more writers would add contention and
// make the batches smaller.
const maxWriters = 2

// finishPause is the Pause of outcomes, which no caller waits for unless it wants the outcome:
// one commit for all of 10 ms.
const finishPause = 10 * time.Millisecond

// batchedCall is a call in a batch. Two calls with one key in one batch would not see each other's
// rows; in two batches, the second would wait for the first one's lock and delay all calls of its
// batch.
type batchedCall[In, Answer any] = batch.Call[In, Answer]

// The types of calls: Begin, Check, Finish, Postpone and AppEventEnded. The key of a Begin is that
// of the recipient's advisory lock, the key of the others is a hash of the ID of their row.
type (
	beginCall    = batchedCall[store.Intent, store.Begun]
	checkCall    = batchedCall[store.CheckRequest, store.Checked]
	finishCall   = batchedCall[store.Outcome, bool]
	postponeCall = batchedCall[store.Postponement, bool]
	eventEndCall = batchedCall[store.AppEventEnd, bool]
)

// change is a change of one row.
type rowChange interface{ Row() store.Held }
