package audit

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func (f *fixture) expire(t *testing.T, age time.Duration, limit, want int) {
	t.Helper()
	gone, err := f.Expire(t.Context(), age, limit)
	ok(t, err)
	equal(t, "expired", gone, Expired{Rows: want, More: want == limit})
}

// Sends and refusals go in the order in which they came; what is under way or has a refund due waits.
func expires(t *testing.T, f *fixture) {
	flying := f.admit(t, f.intent(1)).Send.ID
	sent := f.admit(t, f.intent(2)).Send.ID
	f.finish(t, Outcome{Held: Held{sent, 1}, Status: Sent}, true)
	refunded := f.admit(t, f.intent(3)).Send.ID
	f.finish(t, Outcome{Held: Held{refunded, 1}, Status: Failed, Refund: true}, true)
	f.pass(time.Second)
	r := f.refusal(1, nil)
	ok(t, f.Refused(t.Context(), []Send{r}))
	f.pass(time.Second)
	young := f.admit(t, f.intent(4)).Send.ID
	f.finish(t, Outcome{Held: Held{young, 1}, Status: Sent}, true)

	f.pass(time.Hour + maxLife - 2*time.Second)
	f.expire(t, time.Hour, 10, 0) // exactly so old
	f.pass(time.Microsecond)
	f.expire(t, time.Hour, 10, 1)
	equal(t, "left", sorted(ids(f.all(t))), sorted([]uuid.UUID{flying, refunded, r.ID, young}))
	f.pass(2 * time.Second)
	f.expire(t, time.Hour, 1, 1)
	equal(t, "the oldest went first", sorted(ids(f.all(t))), sorted([]uuid.UUID{flying, refunded, young}))
	f.expire(t, time.Hour, 10, 1)
	f.finish(t, Outcome{Held: Held{flying, 1}, Status: Sent}, true)
	ok(t, f.Refunded(t.Context(), Held{refunded, 1}))
	f.expire(t, time.Hour, 10, 2)
	equal(t, "left", len(f.all(t)), 0)

	_, err := f.Expire(t.Context(), 0, 1)
	is(t, err, ErrBadRequest)
	_, err = f.Expire(t.Context(), time.Hour, 0)
	is(t, err, ErrBadRequest)
}

// A verification goes with the send that opened it, and no sooner than it is old itself; the tries of others stay counted.
func expiresWhole(t *testing.T, f *fixture) {
	old := f.admit(t, f.intent(1))
	f.finish(t, Outcome{Held: Held{old.Send.ID, 1}, Status: Sent}, true)
	f.pass(time.Minute)
	kept := f.admit(t, f.intent(1))
	f.finish(t, Outcome{Held: Held{kept.Send.ID, 1}, Status: Sent}, true)
	f.pass(time.Hour + maxLife)
	f.expire(t, time.Hour, 10, 1)
	_, _, _, err := f.Verification(t.Context(), old.Verification.ID)
	is(t, err, ErrNotFound)
	_, err = f.Story(t.Context(), old.Send.ID)
	is(t, err, ErrNotFound)
	_, newest, _, err := f.Verification(t.Context(), kept.Verification.ID)
	ok(t, err)
	equal(t, "its send", newest.ID, kept.Send.ID)
}

// Replicas do not wait for each other, and nothing is counted twice.
func expiresAtOnce(t *testing.T, f *fixture) {
	for n := range 40 {
		begun := f.admit(t, f.intent(n))
		f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Sent}, true)
	}
	f.pass(time.Hour + maxLife + time.Second)
	counts := make([]int, 8)
	for total := 0; total < 40; {
		together(8, func(i int) {
			gone, err := f.both(i).Expire(t.Context(), time.Hour, 3)
			if err != nil {
				t.Error(err)
			}
			counts[i] += gone.Rows
		})
		before := total
		total = 0
		for _, n := range counts {
			total += n
		}
		if t.Failed() || total == before {
			t.Fatalf("%d of 40, no more", total)
		}
	}
	equal(t, "left", len(f.all(t)), 0)
	f.expire(t, time.Hour, 10, 0)
}

func sorted(list []uuid.UUID) []uuid.UUID {
	return slices.SortedFunc(slices.Values(list), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
}
