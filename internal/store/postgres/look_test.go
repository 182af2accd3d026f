package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/batch"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/storetest"
)

// Each read of a batch returns the rows of its own recipient and time, no matter what time the
// clock showed when it was last read. A read that the database rejects fails alone.
func TestHistoriesOfABatchGetTheirOwnRows(t *testing.T) {
	f := newPostgresFixture(t)
	db := f.DB.Engine.(*DB)
	for n := range 4 { // n sends to recipient n, of which the last is rejected
		for i := range n {
			end := store.Outcome{Status: store.Sent}
			if i == n-1 {
				end = store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, BadAddress: true}
			}
			f.Ended(t, f.Intent(n), end)
		}
	}
	f.Pass(time.Hour)
	f.Ended(t, f.Intent(3), store.Outcome{Status: store.Sent})
	ask := func(n int, app string, counting, rejected time.Duration) *historyCall {
		bucket := store.SendBucket{
			App: app, Channel: recipient.Email, Recipient: recipient.Hash{15: byte(n)},
			Purposes: []string{"login", "signup"},
		}
		return batch.NewCall[rowrules.HistoryQuery,
			rowrules.History](rowrules.HistoryQuery{SendBucket: bucket, CountedWithin: counting, RejectedWithin: rejected},
			0)
	}
	for _, last := range []time.Time{f.Now, f.Now.AddDate(0, -5, 0), f.Now.AddDate(0, 5, 0)} {
		db.sawClock(last)
		looks := []*historyCall{
			ask(1, "shop", day, day), ask(0, "shop", day, day), ask(2, "shop", day, 0),
			ask(3, "shop", time.Minute, day),
			ask(3, "shop", 0, time.Minute), ask(3, "other", day, day), ask(3, "\x00", day, day),
		}
		db.answerHistories(looks)
		for i, want := range [][2]int{{1, 1}, {0, 0}, {2, 0}, {1, 1}, {0, 0}, {0, 0}} {
			x := looks[i]
			storetest.OK(t, x.Err)
			storetest.Equal(t, "rows", [2]int{len(x.Answer.Past), len(x.Answer.Rejections)}, want)
			storetest.Equal(t, "time", x.Answer.Now, f.Now)
		}
		if looks[6].Err == nil {
			t.Error("a text that cannot be stored was looked up")
		}
	}
}

// If one call of a batch needs a send, each call gets its verification with the newest send, even
// if two calls read the same verification. If no call needs one, no send is read. A call with an
// unknown ID gets nothing.
func TestVerificationsOfABatchGetTheirOwnRows(t *testing.T) {
	f := newPostgresFixture(t)
	db := f.DB.Engine.(*DB)
	one, other := f.Admit(t, f.Intent(1)), f.Admit(t, f.Intent(2))
	f.Pass(time.Minute)
	newest := f.Admit(t, f.Intent(1, storetest.Joining(one.Verification.ID)))
	for _, withSend := range []bool{true, false} {
		var finds []*verificationCall
		for i, id := range []string{one.Verification.ID, "unknown", other.Verification.ID, one.Verification.ID} {
			finds = append(finds, batch.NewCall[verificationQuery, storedVerification](verificationQuery{id, withSend && i == 1}, 0))
		}
		db.answerVerifications(finds)
		for i, want := range []store.BeginAnswer{newest, {}, other, newest} {
			x := finds[i]
			if !withSend {
				want.Send.ID = uuid.Nil
			}
			storetest.OK(t, x.Err)
			storetest.Equal(t, "verification, newest send, found",
				[]any{x.Answer.Verification.ID, x.Answer.Send.ID, !x.Answer.now.IsZero()},
				[]any{want.Verification.ID, want.Send.ID, i != 1})
		}
	}
}
