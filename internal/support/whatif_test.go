package support

import (
	"errors"
	"testing"

	"sendcode/internal/store"
)

func TestReplayIsBounded(t *testing.T) {
	full := whatIfRun{read: maxReplayedSends}
	if err := full.tally(store.CountedSend{}); !errors.Is(err, ErrTooManySends) {
		t.Error(err)
	}
}
