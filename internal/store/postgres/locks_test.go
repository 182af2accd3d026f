package postgres

import (
	"testing"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// Two replicas lock the same recipients in the same order, however their batches are composed. The
// key of a lock depends on the app, the channel and the recipient, but not on the purpose.
func TestLocksAreTakenInOrder(t *testing.T) {
	var batch []*beginCall
	for _, key := range []int64{5, -3, 9, 0, -7} {
		batch = append(batch, &beginCall{Key: key})
	}
	storetest.Equal(t, "keys", sortedLockKeys(batch), []int64{-7, -3, 0, 5, 9})

	a := store.Send{App: "a", Channel: "b"}
	for _, other := range []store.Send{
		{App: "ab", Channel: ""},
		{App: "", Channel: "ab"},
		{App: "a", Channel: "b", Recipient: recipient.Hash{1}},
	} {
		if store.RecipientLockKey(a) == store.RecipientLockKey(other) {
			t.Errorf("one key for %+v and %+v", a, other)
		}
	}
	storetest.Equal(t, "key of another purpose", store.RecipientLockKey(store.Send{App: "a", Channel: "b", Purpose: "c"}),
		store.RecipientLockKey(a))
}
