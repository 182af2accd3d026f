package support

import (
	"errors"
	"testing"

	"sendcode/internal/store"
)

func TestReplayIsBounded(t *testing.T) {
	full := replay{read: maxReplayedSends}
	if err := full.tally(store.CountedSend{}); !errors.Is(err, ErrTooManySends) {
		t.Error(err)
	}
}
