package support

import (
	"errors"
	"testing"

	"sendcode/internal/store"
)

func TestReplayIsBounded(t *testing.T) {
	full := replay{read: maxReplayed}
	if err := full.decide(store.CountedSend{}); !errors.Is(err, ErrTooMuch) {
		t.Error(err)
	}
}
