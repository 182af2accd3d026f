package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

func (f *Fixture) expireAndCheck(t *testing.T, age time.Duration, limit, want int) {
	t.Helper()
	Equal(t, "expired", Must(f.Expire(t.Context(), age, limit))(t), store.Expired{Rows: want, More: want == limit})
}

// Sends and refusals go in the order in which they came; what is under way or has a refund due waits.
func expires(t *testing.T, f *Fixture) {
	flying := f.Admit(t, f.Intent(1)).Send.ID
	sent := f.Admit(t, f.Intent(2)).Send.ID
	f.End(t, sent, store.Outcome{Status: store.Sent})
	refunded := f.Admit(t, f.Intent(3)).Send.ID
	f.End(t, refunded, store.Outcome{Status: store.Failed, Refund: true})
	f.Pass(time.Second)
	r := f.Refusal(1, nil)
	OK(t, f.Refused(t.Context(), []store.Send{r}))
	f.Pass(time.Second)
	young := f.Admit(t, f.Intent(4)).Send.ID
	f.End(t, young, store.Outcome{Status: store.Sent})

	f.Pass(time.Hour + store.MaxLife - 2*time.Second)
	f.expireAndCheck(t, time.Hour, 10, 0) // exactly so old
	f.Pass(time.Microsecond)
	f.expireAndCheck(t, time.Hour, 10, 1)
	Equal(t, "left", sorted(IDs(f.All(t))), sorted([]uuid.UUID{flying, refunded, r.ID, young}))
	f.Pass(2 * time.Second)
	f.expireAndCheck(t, time.Hour, 1, 1)
	Equal(t, "the oldest went first", sorted(IDs(f.All(t))), sorted([]uuid.UUID{flying, refunded, young}))
	f.expireAndCheck(t, time.Hour, 10, 1)
	f.End(t, flying, store.Outcome{Status: store.Sent})
	OK(t, f.Refunded(t.Context(), store.Held{ID: refunded, Attempt: 1}))
	f.expireAndCheck(t, time.Hour, 10, 2)
	Equal(t, "left", len(f.All(t)), 0)

	_, err := f.Expire(t.Context(), 0, 1)
	Is(t, err, store.ErrBadRequest)
	_, err = f.Expire(t.Context(), time.Hour, 0)
	Is(t, err, store.ErrBadRequest)
}

// Expire deletes a verification together with the send that opened it, once the verification is old enough; tries of others still count.
func expiresWithVerification(t *testing.T, f *Fixture) {
	old := f.Ended(t, f.Intent(1), store.Outcome{Status: store.Sent})
	f.Pass(time.Minute)
	kept := f.Ended(t, f.Intent(1), store.Outcome{Status: store.Sent})
	f.Pass(time.Hour + store.MaxLife)
	f.expireAndCheck(t, time.Hour, 10, 1)
	_, _, _, err := f.Verification(t.Context(), old.Verification.ID)
	Is(t, err, store.ErrNotFound)
	_, err = f.Story(t.Context(), old.Send.ID)
	Is(t, err, store.ErrNotFound)
	_, newest, _ := Must3(f.Verification(t.Context(), kept.Verification.ID))(t)
	Equal(t, "its send", newest.ID, kept.Send.ID)
}

// Eight calls at the same time, on two replicas, delete every row, and none is counted twice.
func expiresAtOnce(t *testing.T, f *Fixture) {
	for n := range 40 {
		f.Ended(t, f.Intent(n), store.Outcome{Status: store.Sent})
	}
	f.Pass(time.Hour + store.MaxLife + time.Second)
	counts := make([]int, 8)
	for total := 0; total < 40; {
		Together(8, func(i int) {
			gone, err := f.Both(i).Expire(t.Context(), time.Hour, 3)
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
	Equal(t, "left", len(f.All(t)), 0)
	f.expireAndCheck(t, time.Hour, 10, 0)
}

func sorted(list []uuid.UUID) []uuid.UUID {
	return slices.SortedFunc(slices.Values(list), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
}
