package support

import (
	"errors"
	"testing"

	"sendcode/internal/store"
)

func TestReplayIsBounded(t *testing.T) {
	full := replay{read: maxReplayed}
	if err := full.tally(store.CountedSend{}); !errors.Is(err, ErrTooMuch) {
		t.Error(err)
	}
}
