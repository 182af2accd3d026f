package audit

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
)

// Both databases have the same columns, so what is read from them is described once.

const verificationColumns = `v.id, v.app, v.channel, v.purpose, v.recipient, v.masked, v.sealed, v.holder, v.nonce, v.key_id,
 v.code_length, v.alphabet, v.locale, v.reference, v.created_at, v.expires_at, v.attempts, v.max_attempts, v.sends, v.approved_at, v.canceled_at, v.forgiven, v.by_browser`

// verificationFields are where verificationColumns are scanned to.
func verificationFields(v *Verification) []any {
	return []any{
		&v.ID, &v.App, &v.Channel, &v.Purpose, hashField{&v.Recipient}, &v.To, &v.Sealed, &v.Holder, &v.Nonce, &v.KeyID,
		&v.CodeLength, &v.Alphabet, &v.Locale, &v.Reference, timeField{&v.CreatedAt}, timeField{&v.ExpiresAt}, &v.Attempts, &v.MaxAttempts,
		&v.Sends, timeField{&v.ApprovedAt}, timeField{&v.CanceledAt}, &v.Forgiven, &v.ByBrowser,
	}
}

// statusColumn is a send's status with its receipt, which may have come before the outcome.
const statusColumn = `CASE WHEN s.receipt <> '' AND s.status IN ('sent', 'unknown') THEN s.receipt ELSE s.status END`

const sendColumns = `s.id, s.verification_id, s.number, s.app, s.channel, s.purpose, s.recipient, s.masked, s.locale, s.reference,
 s.ip, ` + statusColumn + `, s.reason, s.attempt, s.in_doubt, s.counts, s.refund_since IS NOT NULL, s.taken_at, s.clock, s.logged_at,
 s.due_at, s.finished_at, s.provider, s.provider_code, s.took, s.blocked_by, s.retry_after, s.requests, s.observed, s.suppression_id, s.forgiven, s.afterwards, s.country, s.prefix, s.recipients`

// sendFields are where sendColumns are scanned to.
func sendFields(s *Send) []any {
	return []any{
		&s.ID, &s.VerificationID, &s.Number, &s.App, &s.Channel, &s.Purpose, hashField{&s.Recipient}, &s.To, &s.Locale, &s.Reference,
		&s.IP, &s.Status, &s.Reason, &s.Attempt, &s.InDoubt, &s.Counts, &s.RefundDue, timeField{&s.TakenAt}, &s.Clock, timeField{&s.LoggedAt},
		timeField{&s.DueAt}, timeField{&s.FinishedAt}, &s.Provider, &s.ProviderCode, spanField{&s.Took}, &s.BlockedBy, spanField{&s.RetryAfter}, &s.Count, namesField{&s.Observed}, maybeIDField{&s.Suppression}, &s.Forgiven, &s.Afterwards, &s.Country, &s.Prefix, &s.Recipients,
	}
}

// timeField reads a timestamptz, or µs since 1970; NULL is the zero time.
type timeField struct{ to *time.Time }

// Scan implements sql.Scanner.
func (f timeField) Scan(src any) error {
	switch x := src.(type) {
	case nil:
		*f.to = time.Time{}
	case time.Time:
		*f.to = micro(x)
	case int64:
		*f.to = time.UnixMicro(x).UTC()
	default:
		return fmt.Errorf("audit: no instant: %T", src)
	}
	return nil
}

// spanField reads a number of µs.
type spanField struct{ to *time.Duration }

// Scan implements sql.Scanner.
func (f spanField) Scan(src any) error {
	x, ok := src.(int64)
	if !ok {
		return fmt.Errorf("audit: no duration: %T", src)
	}
	*f.to = time.Duration(x) * time.Microsecond
	return nil
}

// comma joins the names of rules, which have none.
const comma = ","

// namesField reads names by commas.
type namesField struct{ to *[]string }

// Scan implements sql.Scanner.
func (f namesField) Scan(src any) error {
	x, ok := src.(string)
	if !ok {
		return fmt.Errorf("audit: no names: %T", src)
	}
	if x != "" {
		*f.to = strings.Split(x, comma)
	}
	return nil
}

// hashField reads the 16 bytes of a recipient's hash.
type hashField struct{ to *recipient.Hash }

// Scan implements sql.Scanner.
func (f hashField) Scan(src any) error {
	x, ok := src.([]byte)
	if !ok || len(x) != len(f.to) {
		return fmt.Errorf("audit: no recipient hash: %T", src)
	}
	*f.to = recipient.Hash(x)
	return nil
}

// keyField reads 32 bytes.
type keyField struct{ to *[32]byte }

// Scan implements sql.Scanner.
func (f keyField) Scan(src any) error {
	x, ok := src.([]byte)
	if !ok || len(x) != len(f.to) {
		return fmt.Errorf("audit: no 32 bytes: %T", src)
	}
	*f.to = [32]byte(x)
	return nil
}

// maybeHashField is hashField where there may be none.
type maybeHashField struct{ to *recipient.Hash }

// Scan implements sql.Scanner.
func (f maybeHashField) Scan(src any) error {
	if b, ok := src.([]byte); src == nil || ok && b == nil {
		*f.to = recipient.Hash{}
		return nil
	}
	return hashField(f).Scan(src)
}

// maybeIDField reads a UUID where there may be none.
type maybeIDField struct{ to *uuid.UUID }

// Scan implements sql.Scanner.
func (f maybeIDField) Scan(src any) error { return f.to.Scan(src) }

// workFields are where sendColumns and verificationColumns are scanned to.
func workFields(w *Work) []any {
	return append(sendFields(&w.Send), verificationFields(&w.Verification)...)
}
