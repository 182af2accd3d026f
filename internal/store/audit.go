package store

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
)

// AuditEntry records an action of an administrator. It never changes, except that an erasure
// removes the recipient. An action that changes the store writes its entry in the same transaction.
// Any other action is preceded by an entry with AuditBegun, and followed by one that completes it.
type AuditEntry struct {
	ID        uuid.UUID // version 7
	At        time.Time // set by the database, on its clock
	Who       string    // the account
	Role      string    // at that time
	Network   string    // of the request
	What      string    // machine-readable, as "quota.reset"
	App       string
	Channel   recipient.Channel
	Purpose   string
	Recipient recipient.Hash // zero: none, or sqldb.DB.ForgetDueErased deleted it
	To        string         // masked; ErasedMask after an erasure
	Target    string         // ID or name of what the action is on, such as a send, an account or a prefix
	Reason    string         // the administrator's; no erasure removes it, so it must not name a recipient
	Outcome   AuditOutcome
	Detail    string    // machine-readable: cause of a failure, or the changes
	Completes uuid.UUID // ID of the entry with AuditBegun; Nil: none
}

func (a *AuditEntry) Columns() []Column {
	return []Column{
		{"id", &a.ID, InsertedColumn | ExportedColumn},
		{"at", &a.At, InsertedColumn | ExportedColumn},
		{"actor", &a.Who, InsertedColumn},
		{"role", &a.Role, InsertedColumn | ExportedColumn},
		{"network", &a.Network, InsertedColumn},
		{"action", &a.What, InsertedColumn | ExportedColumn},
		{"app", &a.App, InsertedColumn | ExportedColumn},
		{"channel", (*string)(&a.Channel), InsertedColumn | ExportedColumn},
		{"purpose", &a.Purpose, InsertedColumn | ExportedColumn},
		{"recipient", &a.Recipient, 0},
		{"masked", &a.To, 0},
		{"target", &a.Target, InsertedColumn | ExportedColumn},
		{"reason", &a.Reason, InsertedColumn},
		{"outcome", (*string)(&a.Outcome), InsertedColumn | ExportedColumn},
		{"detail", &a.Detail, InsertedColumn | ExportedColumn},
		{"completes", &a.Completes, NullableColumn | InsertedColumn | ExportedColumn},
	}
}

type AuditOutcome string

// If no entry completes one with AuditBegun, the action still runs, or the process died during it
// or couldn't write the outcome.
const (
	AuditBegun  AuditOutcome = "begun"
	AuditDone   AuditOutcome = "done"
	AuditFailed AuditOutcome = "failed"
)

// ErasureAction is the AuditEntry.What of an erasure.
const ErasureAction = "recipient.erase"

// ErasedMask replaces a masked recipient after its erasure.
const ErasedMask = "•••"

// AuditFilter selects audit entries. Zero fields select all.
type AuditFilter struct {
	Who       string
	What      string
	Recipient *recipient.Hash
	Before    *Cursor // older entries only
	Limit     int     // 1 to 200
}

const maxAuditReasonLength = 500 // characters

// Validated returns the entry if it is valid, otherwise an error that wraps ErrBadRequest.
func (a AuditEntry) Validated() (AuditEntry, error) {
	switch {
	case a.ID == uuid.Nil || a.Who == "" || a.What == "":
		return a, BadRequestf("an audit entry has an ID, an actor and an action")
	case !slices.Contains([]AuditOutcome{AuditBegun, AuditDone, AuditFailed}, a.Outcome):
		return a, BadRequestf("an audit entry has an outcome")
	case !AreValidTexts(a.Who, a.Role, a.Network, a.What, a.App, string(a.Channel), a.Purpose, a.To, a.Target, a.Detail):
		return a, BadRequestf("a text of an audit entry can't be stored")
	case utf8.RuneCountInString(a.Reason) > maxAuditReasonLength || !utf8.ValidString(a.Reason) ||
		strings.ContainsRune(a.Reason, 0):
		return a, BadRequestf("a reason has at most %d characters", maxAuditReasonLength)
	}
	return a, nil
}

// HasRecipient reports whether the entry has a row in audit_recipients.
func (a AuditEntry) HasRecipient() bool { return a.Recipient != recipient.Hash{} || a.To != "" }

// AuditEntryCompletion returns a new entry that completes a. It fails if the system has no random
// bytes.
func AuditEntryCompletion(a AuditEntry, outcome AuditOutcome, detail string) (AuditEntry, error) {
	id, err := uuid.NewV7()
	a.Completes, a.ID, a.Outcome, a.Detail = a.ID, id, outcome, detail
	return a, err
}

// AsFailedBecauseEnded returns the entry of an action that failed because the verification had
// already ended.
func (a AuditEntry) AsFailedBecauseEnded() AuditEntry {
	a.Outcome, a.Detail = AuditFailed, "ended"
	return a
}
