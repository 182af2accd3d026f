package storetest

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

func latestOfMany(t *testing.T, f *Fixture) {
	old := f.Admit(t, f.Intent(1)).Send
	f.Pass(time.Hour)
	var want []store.Send
	for _, n := range []int{2, 1, 3} {
		s := f.Admit(t, f.Intent(n)).Send
		f.Pass(time.Millisecond)
		if n != 3 {
			want = append([]store.Send{f.Row(t, s.ID)}, want...)
		}
	}
	hashes := []recipient.Hash{{15: 200}, want[0].Recipient, want[1].Recipient, old.Recipient}
	got, err := f.Latest(t.Context(), hashes, time.Hour)
	OK(t, err)
	Equal(t, "the newest of each", got, want)
	f.Pass(time.Hour)
	got, err = f.Latest(t.Context(), hashes, time.Hour)
	OK(t, err)
	Equal(t, "those of long ago", len(got), 0)
	for n, fine := range map[int]bool{0: true, store.MaxLatest: true, store.MaxLatest + 1: false} {
		_, err := f.Latest(t.Context(), make([]recipient.Hash, n), time.Hour)
		if fine {
			OK(t, err)
		} else {
			Is(t, err, store.ErrBadRequest)
		}
	}
	_, err = f.Latest(t.Context(), hashes, 0)
	Is(t, err, store.ErrBadRequest)
}
