package sqldb

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// SendTable describes a send as it is stored.
var SendTable = table[store.Send]{name: "sends", alias: "s", columns: []column[store.Send]{
	idColumn("id", func(s *store.Send) *uuid.UUID { return &s.ID }, inserts),
	timeColumn("taken_at", func(s *store.Send) *time.Time { return &s.TakenAt }, inserts),
	timeColumn("logged_at", func(s *store.Send) *time.Time { return &s.LoggedAt }, inserts),
	timeColumn("finished_at", func(s *store.Send) *time.Time { return &s.FinishedAt }, AsBlock),
	spanColumn("took", func(s *store.Send) *time.Duration { return &s.Took }, never),
	spanColumn("retry_after", func(s *store.Send) *time.Duration { return &s.RetryAfter }, AsBlock),
	numberColumn("number", func(s *store.Send) *int { return &s.Number }, inserts),
	numberColumn("attempt", func(s *store.Send) *int { return &s.Attempt }, inserts),
	numberColumn("requests", func(s *store.Send) *int { return &s.Count }, AsBlock),
	numberColumn("recipients", func(s *store.Send) *int { return &s.Recipients }, AsBlock),
	flagColumn("in_doubt", func(s *store.Send) *bool { return &s.InDoubt }, never),
	flagColumn("counts", func(s *store.Send) *bool { return &s.Counts }, inserts),
	flagColumn("forgiven", func(s *store.Send) *bool { return &s.Forgiven }, never),
	flagColumn("refund_due", func(s *store.Send) *bool { return &s.RefundDue }, never).as(refundDueSQL),
	timeColumn("due_at", func(s *store.Send) *time.Time { return &s.DueAt }, never).as(dueAtSQL),
	maybeIDColumn("suppression_id", func(s *store.Send) *uuid.UUID { return &s.Suppression }, AsSend),
	textColumn("status", func(s *store.Send) *store.Status { return &s.Status }, inserts).as(statusColumn),
	textColumn("reason", func(s *store.Send) *string { return &s.Reason }, never),
	textColumn("provider", func(s *store.Send) *string { return &s.Provider }, never),
	textColumn("provider_code", func(s *store.Send) *string { return &s.ProviderCode }, never),
	textColumn("afterwards", func(s *store.Send) *store.ProviderEventKind { return &s.Afterwards }, never),
	textColumn("app", func(s *store.Send) *string { return &s.App }, inserts),
	textColumn("channel", func(s *store.Send) *recipient.Channel { return &s.Channel }, inserts),
	textColumn("purpose", func(s *store.Send) *string { return &s.Purpose }, inserts),
	hashColumn("recipient", func(s *store.Send) *recipient.Hash { return &s.Recipient }, inserts),
	textColumn("masked", func(s *store.Send) *string { return &s.To }, inserts),
	derivedColumn("domain", func(s *store.Send) string { return recipient.DomainOf(s.To) }, inserts),
	textColumn("country", func(s *store.Send) *string { return &s.Country }, inserts),
	textColumn("prefix", func(s *store.Send) *string { return &s.Prefix }, inserts),
	textColumn("verification_id", func(s *store.Send) *string { return &s.VerificationID }, inserts),
	textColumn("clock", func(s *store.Send) *string { return &s.Clock }, inserts),
	textColumn("locale", func(s *store.Send) *string { return &s.Locale }, inserts),
	textColumn("reference", func(s *store.Send) *string { return &s.Reference }, inserts),
	textColumn("ip", func(s *store.Send) *string { return &s.IP }, inserts),
	namesColumn("observed", func(s *store.Send) *[]string { return &s.Observed }, AsSend),
	textColumn("blocked_by", func(s *store.Send) *string { return &s.BlockedBy }, AsBlock),
}}

// What is in a small table of its own, as long as there is something.
const (
	refundDueSQL = `CASE WHEN s.status = 'failed' THEN EXISTS (SELECT 1 FROM refunds r WHERE r.id = s.id) ELSE false END`
	dueAtSQL     = `CASE WHEN s.status IN ('queued', 'sending') THEN (SELECT f.due_at FROM flights f WHERE f.id = s.id) END`
)

// VerificationTable describes a verification as it is stored.
var VerificationTable = table[store.Verification]{name: "verifications", alias: "v", columns: []column[store.Verification]{
	timeColumn("created_at", func(v *store.Verification) *time.Time { return &v.CreatedAt }, inserts),
	timeColumn("expires_at", func(v *store.Verification) *time.Time { return &v.ExpiresAt }, inserts),
	timeColumn("approved_at", func(v *store.Verification) *time.Time { return &v.ApprovedAt }, never),
	timeColumn("canceled_at", func(v *store.Verification) *time.Time { return &v.CanceledAt }, never),
	timeColumn("redeemed_at", func(v *store.Verification) *time.Time { return &v.RedeemedAt }, never),
	numberColumn("attempts", func(v *store.Verification) *int { return &v.Attempts }, never),
	numberColumn("max_attempts", func(v *store.Verification) *int { return &v.MaxAttempts }, inserts),
	numberColumn("sends", func(v *store.Verification) *int { return &v.Sends }, inserts),
	numberColumn("forgiven", func(v *store.Verification) *int { return &v.Forgiven }, never),
	flagColumn("by_browser", func(v *store.Verification) *bool { return &v.ByBrowser }, inserts),
	numberColumn("code_length", func(v *store.Verification) *int { return &v.CodeLength }, inserts),
	textColumn("id", func(v *store.Verification) *string { return &v.ID }, inserts),
	textColumn("app", func(v *store.Verification) *string { return &v.App }, inserts),
	textColumn("channel", func(v *store.Verification) *recipient.Channel { return &v.Channel }, inserts),
	textColumn("purpose", func(v *store.Verification) *string { return &v.Purpose }, inserts),
	hashColumn("recipient", func(v *store.Verification) *recipient.Hash { return &v.Recipient }, inserts),
	textColumn("masked", func(v *store.Verification) *string { return &v.To }, inserts),
	bytesColumn("sealed", func(v *store.Verification) *[]byte { return &v.Sealed }, true, inserts),
	bytesColumn("redeemed_by", func(v *store.Verification) *[]byte { return &v.RedeemedBy }, true, never),
	textColumn("holder", func(v *store.Verification) *string { return &v.Holder }, inserts),
	bytesColumn("nonce", func(v *store.Verification) *[]byte { return &v.Nonce }, false, inserts),
	textColumn("key_id", func(v *store.Verification) *string { return &v.KeyID }, inserts),
	textColumn("alphabet", func(v *store.Verification) *string { return &v.Alphabet }, inserts),
	textColumn("locale", func(v *store.Verification) *string { return &v.Locale }, inserts),
	textColumn("reference", func(v *store.Verification) *string { return &v.Reference }, inserts),
}}

// statusColumn is a send's status with its receipt, which may have come before the outcome.
const statusColumn = `CASE WHEN s.receipt <> '' AND s.status IN ('sent', 'unknown') THEN s.receipt ELSE s.status END`

// Each table's columns as they are selected.
var (
	SendColumns         = SendTable.list()
	VerificationColumns = VerificationTable.list()
)

// SendFields are where sendColumns are scanned to.
func SendFields(s *store.Send) []any { return SendTable.fields(s) }

// VerificationFields are where verificationColumns are scanned to.
func VerificationFields(v *store.Verification) []any { return VerificationTable.fields(v) }

// TimeField reads a timestamptz, or µs since 1970; NULL is the zero time.
type TimeField struct{ To *time.Time }

// Scan implements sql.Scanner.
func (f TimeField) Scan(src any) error {
	switch x := src.(type) {
	case nil:
		*f.To = time.Time{}
	case time.Time:
		*f.To = store.Micro(x)
	case int64:
		*f.To = time.UnixMicro(x).UTC()
	default:
		return fmt.Errorf("store: no instant: %T", src)
	}
	return nil
}

// spanField reads a number of µs.
type spanField struct{ to *time.Duration }

// Scan implements sql.Scanner.
func (f spanField) Scan(src any) error {
	x, ok := src.(int64)
	if !ok {
		return fmt.Errorf("store: no duration: %T", src)
	}
	*f.to = time.Duration(x) * time.Microsecond
	return nil
}

// namesField reads names by commas.
type namesField struct{ to *[]string }

// Scan implements sql.Scanner.
func (f namesField) Scan(src any) error {
	x, ok := src.(string)
	if !ok {
		return fmt.Errorf("store: no names: %T", src)
	}
	if x != "" {
		*f.to = strings.Split(x, store.Comma)
	}
	return nil
}

// hashField reads the 16 bytes of a recipient's hash.
type hashField struct{ to *recipient.Hash }

// Scan implements sql.Scanner.
func (f hashField) Scan(src any) error {
	x, ok := src.([]byte)
	if ok && len(x) == 0 { // of several recipients together
		*f.to = recipient.Hash{}
		return nil
	}
	if !ok || len(x) != len(f.to) {
		return fmt.Errorf("store: no recipient hash: %T", src)
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
		return fmt.Errorf("store: no 32 bytes: %T", src)
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

// WorkFields are where sendColumns and verificationColumns are scanned to.
func WorkFields(w *store.Work) []any {
	return append(SendFields(&w.Send), VerificationFields(&w.Verification)...)
}

// µs is an instant as a parameter of SQLite.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// knownID is nil for no ID, which is NULL.
func knownID(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
