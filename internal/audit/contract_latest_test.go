package audit

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
)

func latestOfMany(t *testing.T, f *fixture) {
	old := f.admit(t, f.intent(1)).Send
	f.pass(time.Hour)
	var want []Send
	for _, n := range []int{2, 1, 3} {
		s := f.admit(t, f.intent(n)).Send
		f.pass(time.Millisecond)
		if n != 3 {
			want = append([]Send{f.row(t, s.ID)}, want...)
		}
	}
	hashes := []recipient.Hash{{15: 200}, want[0].Recipient, want[1].Recipient, old.Recipient}
	got, err := f.Latest(t.Context(), hashes, time.Hour)
	ok(t, err)
	equal(t, "the newest of each", got, want)
	f.pass(time.Hour)
	got, err = f.Latest(t.Context(), hashes, time.Hour)
	ok(t, err)
	equal(t, "those of long ago", len(got), 0)
	for n, fine := range map[int]bool{0: true, maxLatest: true, maxLatest + 1: false} {
		_, err := f.Latest(t.Context(), make([]recipient.Hash, n), time.Hour)
		if fine {
			ok(t, err)
		} else {
			is(t, err, ErrBadRequest)
		}
	}
	_, err = f.Latest(t.Context(), hashes, 0)
	is(t, err, ErrBadRequest)
}
