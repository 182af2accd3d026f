package storetest

import (
	"slices"
	"sync/atomic"
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
	f.Ended(t, f.Intent(2), Sent)
	refunded := f.Ended(t, f.Intent(3), store.Outcome{Status: store.Failed, Refund: true}).Send.ID
	f.Pass(time.Second)
	r := f.Refusal(1, nil)
	OK(t, f.Refused(t.Context(), []store.Send{r}))
	f.Pass(time.Second)
	young := f.Ended(t, f.Intent(4), Sent).Send.ID

	f.Pass(time.Hour + store.MaxLife - 2*time.Second)
	f.expireAndCheck(t, time.Hour, 10, 0) // exactly so old
	f.Pass(time.Microsecond)
	f.expireAndCheck(t, time.Hour, 10, 1)
	Equal(t, "left", sorted(IDs(f.All(t))), sorted([]uuid.UUID{flying, refunded, r.ID, young}))
	f.Pass(2 * time.Second)
	f.expireAndCheck(t, time.Hour, 1, 1)
	Equal(t, "the oldest went first", sorted(IDs(f.All(t))), sorted([]uuid.UUID{flying, refunded, young}))
	f.expireAndCheck(t, time.Hour, 10, 1)
	f.End(t, flying, Sent)
	OK(t, f.Refunded(t.Context(), Held(refunded, 1)))
	f.expireAndCheck(t, time.Hour, 10, 2)
	Equal(t, "left", len(f.All(t)), 0)
}

// Expire deletes a verification together with the send that opened it, once the verification is old enough; tries of others still count.
func expiresWithVerification(t *testing.T, f *Fixture) {
	old := f.Ended(t, f.Intent(1), Sent)
	f.Pass(time.Minute)
	kept := f.Ended(t, f.Intent(1), Sent)
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
	f.EndAll(t, f.AdmitAll(t, 40, func(i int) store.Intent { return f.Intent(i) }), func(int) store.Outcome { return Sent })
	f.Pass(time.Hour + store.MaxLife + time.Second)
	var gone atomic.Int32
	for before := int32(-1); gone.Load() < 40 && before < gone.Load(); {
		before = gone.Load()
		f.atOnce(t, 8, func(log store.Store, _ int) (bool, error) {
			expired, err := log.Expire(t.Context(), time.Hour, 3)
			gone.Add(int32(expired.Rows))
			return true, err
		})
	}
	Equal(t, "expired", gone.Load(), 40)
	Equal(t, "left", len(f.All(t)), 0)
	f.expireAndCheck(t, time.Hour, 10, 0)
}

func sorted(list []uuid.UUID) []uuid.UUID {
	return slices.SortedFunc(slices.Values(list), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
}
