package store

import (
	"context"
	"time"

	"sendcode/internal/recipient"
)

// A recipient may have themselves erased. What is left is the keyed hash where it counts, so that being erased frees no
// quota (SEC-12), and how many there were of what; once every window has passed the hash goes, too.

// ReasonErased is the reason of a send that ended because its recipient was erased.
const ReasonErased = "erased"

// Eraser is the part of the log that forgets people.
type Eraser interface {
	// Erase takes from every row what tells of the recipient but the keyed hash, ends their codes and the sends that wait for
	// their next attempt (Failed, ReasonErased; they keep their places), and has Forget take the hash after keep. A send that
	// an attempt holds right now ends as that attempt does. The act, written with it, keeps the hash for as long.
	Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act AuditEntry) error
	// Forget takes the hash out of the rows of those who were erased and whose time has come, and says how many they were.
	Forget(ctx context.Context) (int, error)
}

// Nobody stands for a person who was forgotten: the zero hash.
var Nobody recipient.Hash

// CheckErased says what is wrong with the arguments of a call of Erase.
func CheckErased(h recipient.Hash, keep time.Duration, act AuditEntry) (AuditEntry, error) {
	if h.IsZero() || keep <= 0 {
		return act, Bad("no recipient to erase, or for no time")
	}
	act.Recipient, act.To = h, Erased
	return act.Checked()
}
