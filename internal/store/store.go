// Package store has the types of the database's rows and validates them; it has no SQL. Every send,
// refusal and verification has a row, and nothing is sent without one. The rows are the record,
// which says whether a message went out and, if not, why. They are the second gate: Begin decides
// the recipient's rules again by the rows, under a lock on the recipient, in the transaction that
// writes the send. Therefore Begin admits no send too many even if the limiter has lost counts. And
// the rows are the outbox: a send in flight has a lease, only the latest attempt can finish it, and
// after the lease any replica takes it over.
//
// Package rowrules decides by the rows. sqldb has the store's methods and the statements that both
// databases share; postgres and sqlite have the statements that differ, and both pass storetest.
// Users of the store declare the methods they need. docs/ARCHITECTURE.md says how to add a field, a
// filter or a table.
//
// Instants are whole microseconds, UTC, on the database's clock. Begin reads the clock after it has
// taken the lock.
package store

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// ErrBadRequest means that the arguments are invalid (a bug of the caller) or conflict with a row,
// as with ErrNameTaken. Nothing was written. Other errors are *OtherKeysError and those of package
// fault. After fault.Uncertain the send may have been written, so don't refund it in the limiter at
// once: look up the row later, or repeat Begin with the same Send.ID, which writes it at most once.
var ErrBadRequest = errors.New("store: bad request")

// CallTimeout bounds a call to the database; see WithCallTimeout.
var CallTimeout = 5 * time.Second

// WithCallTimeout returns ctx if it has a deadline, otherwise one that ends after CallTimeout.
// Every method of the store calls it before it waits or reads, so callers set a deadline only for
// several calls together, or for a longer call, such as Erase. In a stream the timeout bounds each
// page.
func WithCallTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, CallTimeout)
}

// KeyCheckValues maps the name of a secret key to a keyed hash of a fixed text.
type KeyCheckValues map[string][]byte

// Differing returns the sorted names whose values differ.
func (c KeyCheckValues) Differing(other KeyCheckValues) (names []string) {
	for name, value := range c {
		if known, ok := other[name]; ok && !bytes.Equal(known, value) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// OtherKeysError means that the database was written with other secret keys of these names.
type OtherKeysError struct{ Names []string }

func (e *OtherKeysError) Error() string {
	return "store: the database was written with other keys: " + strings.Join(e.Names, ", ")
}

// SealedTable has a column "sealed", whose values keys.Ring.Seal encrypted. Key is the column of
// the primary key, a UUID or a text.
type SealedTable struct {
	Name, Key string
	UUID      bool
}

type SealedRow struct {
	Key    string
	Sealed []byte
}
