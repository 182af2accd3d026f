package store

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
)

// AuditEntry records one action of an administrator. Entries never change, except that an erasure
// removes the recipient. If an action changes the store, its entry is written in the transaction of
// the change. For any other action, an entry with AuditBegun is written before the action. After
// the action, a second entry completes the first entry.
type AuditEntry struct {
	ID        uuid.UUID // version 7
	At        time.Time // on the database's clock; the database sets it
	Who       string    // the account
	Role      string    // the account's role at that time
	Network   string    // where the request came from
	What      string    // machine-readable action, as "quota.reset"
	App       string
	Channel   recipient.Channel
	Purpose   string
	Recipient recipient.Hash // zero: the action had no recipient, or ForgetDueErased of package sqldb deleted the hash
	To        string         // masked; ErasedMask after an erasure
	Target    string         // ID of a send, or the name of an account
	Reason    string         // written by the administrator; no erasure removes it, so it must not name a recipient
	Outcome   AuditOutcome
	Detail    string    // machine-readable: the cause of a failure, or the changes
	Completes uuid.UUID // ID of the entry with outcome AuditBegun that this entry completes; uuid.Nil: none
}

// Columns returns the columns of the row.
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

// AuditOutcome is the outcome of an action.
type AuditOutcome string

// The outcomes of an action. If no entry completes an entry with AuditBegun, the action may still
// run. Otherwise the process died during the action, or could not write the outcome.
const (
	AuditBegun  AuditOutcome = "begun"
	AuditDone   AuditOutcome = "done"
	AuditFailed AuditOutcome = "failed"
)

// ErasureAction is AuditEntry.What of each Erase.
const ErasureAction = "recipient.erase"

// ErasedMask replaces the masked recipient after an erasure.
const ErasedMask = "•••"

// AuditFilter selects audit entries. Zero fields select all.
type AuditFilter struct {
	Who       string
	What      string
	Recipient *recipient.Hash
	Before    *Cursor // entries older than this mark (keyset paging)
	Limit     int     // 1 to 200
}

// maxAuditReasonLength is the largest length of an administrator's reason, in characters.
const maxAuditReasonLength = 500

// Validated validates the entry and returns it; errors wrap ErrBadRequest.
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

// HasRecipient reports whether the entry names a recipient. Only such entries have a row in the
// table audit_recipients.
func (a AuditEntry) HasRecipient() bool { return a.Recipient != recipient.Hash{} || a.To != "" }

// AuditEntryCompletion returns the entry that completes the entry a. The result is a copy of a with
// a new ID, the outcome and the detail. AuditEntryCompletion fails if the system cannot supply
// random bytes.
func AuditEntryCompletion(a AuditEntry, outcome AuditOutcome, detail string) (AuditEntry, error) {
	id, err := uuid.NewV7()
	a.Completes, a.ID, a.Outcome, a.Detail = a.ID, id, outcome, detail
	return a, err
}

// AsFailedBecauseEnded returns the entry as failed, because the verification had already ended.
func (a AuditEntry) AsFailedBecauseEnded() AuditEntry {
	a.Outcome, a.Detail = AuditFailed, "ended"
	return a
}
