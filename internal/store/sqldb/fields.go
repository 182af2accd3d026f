package sqldb

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// The tables, by Columns of the types in package store.
var (
	SendTable = newTable("sends", "s", (*store.Send).Columns, map[string]string{"refund_due": refundDueSQL, "due_at": dueAtSQL,
		"status": statusColumn, "requests": "1", "recipients": "0", "retry_after": "0", "blocked_by": "''"})
	RefusalTable      = SendTable.refusals(map[string]string{"status": "'refused'", "finished_at": "s.logged_at"})
	VerificationTable = newTable("verifications", "v", (*store.Verification).Columns, nil)

	suppressionTable    = newTable("suppressions", "suppressions", (*store.Suppression).Columns, nil)
	prefixPauseTable    = newTable("prefix_pauses", "p", (*store.PrefixPause).Columns, nil)
	providerEventTable  = newTable("provider_events", "e", (*store.ProviderEvent).Columns, nil)
	accountTable        = newTable("accounts", "a", (*store.Account).Columns, nil)
	sessionTable        = newTable("sessions", "s", (*store.Session).Columns, map[string]string{"factor_at": "f.created_at"})
	pendingReceiptTable = newTable("pending_receipts", "pending_receipts", (*store.PendingReceipt).Columns, nil)
	auditEntryTable     = newTable("audit_entries", "a", (*store.AuditEntry).Columns, map[string]string{
		"recipient": "p.recipient", "masked": "coalesce(p.masked, '')",
	})
	appEventTable = newTable("app_events", "e", (*store.AppEvent).Columns, map[string]string{
		"channel": "coalesce(s.channel, v.channel, '')", "purpose": "coalesce(s.purpose, v.purpose, '')",
		"masked": "coalesce(s.masked, v.masked, '')", "reference": "coalesce(s.reference, v.reference, '')",
	})
)

// Fields of a send that are not columns of sends: they are read from the small tables refunds and outbox.
const (
	refundDueSQL = `CASE WHEN s.status = 'failed' THEN EXISTS (SELECT 1 FROM refunds r WHERE r.id = s.id) ELSE false END`
	dueAtSQL     = `CASE WHEN s.status IN ('queued', 'sending') THEN (SELECT f.due_at FROM outbox f WHERE f.id = s.id) END`
)

// statusColumn is the send's status: the receipt if there is one and the message went out, or may have. A receipt that comes before the
// outcome is shown only after it.
const statusColumn = `CASE WHEN s.receipt <> '' AND s.status IN ('sent', 'unknown') THEN s.receipt ELSE s.status END`

// SELECT lists of the columns of sends s, of refusals s, which are read as sends, and of verifications v.
var (
	SendColumns         = SendTable.selectList()
	RefusalColumns      = RefusalTable.selectList()
	VerificationColumns = VerificationTable.selectList()
)

// sendFields returns the destinations to scan SendColumns into.
func sendFields(s *store.Send) []any { return SendTable.destinations(s) }

// VerificationFields returns the destinations to scan VerificationColumns into.
func VerificationFields(v *store.Verification) []any { return VerificationTable.destinations(v) }

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

// durationField reads a number of µs.
type durationField struct{ to *time.Duration }

// Scan implements sql.Scanner.
func (f durationField) Scan(src any) error {
	x, ok := src.(int64)
	if !ok {
		return fmt.Errorf("store: no duration: %T", src)
	}
	*f.to = time.Duration(x) * time.Microsecond
	return nil
}

// namesField reads a list of names that are joined by commas; nil for an empty text.
type namesField struct{ to *[]string }

// Scan implements sql.Scanner.
func (f namesField) Scan(src any) error {
	x, ok := src.(string)
	if !ok {
		return fmt.Errorf("store: no names: %T", src)
	}
	if x != "" {
		*f.to = strings.Split(x, store.RuleSeparator)
	}
	return nil
}

// checksField reads the checks of a verification: pairs of an instant, in µs since 1970, and a network, "1919191919191919 192.0.2.0/24",
// with commas between them.
type checksField struct{ to *[]store.Check }

// Scan implements sql.Scanner.
func (f checksField) Scan(src any) error {
	x, ok := src.(string)
	if !ok {
		return fmt.Errorf("store: no checks: %T", src)
	}
	*f.to = nil
	for x != "" {
		var one string
		one, x, _ = strings.Cut(x, ",")
		at, network, _ := strings.Cut(one, " ")
		µs, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return fmt.Errorf("store: no check: %w", err)
		}
		*f.to = append(*f.to, store.Check{At: time.UnixMicro(µs).UTC(), Network: network})
	}
	return nil
}

// AppendCheck appends a check as checksField reads it.
func AppendCheck(buf []byte, c store.Check) []byte {
	return append(append(strconv.AppendInt(buf, c.At.UnixMicro(), 10), ' '), c.Network...)
}

// hashField reads a recipient's hash; NULL and an empty value are the zero hash.
type hashField struct{ to *recipient.Hash }

// Scan implements sql.Scanner.
func (f hashField) Scan(src any) error {
	x, ok := src.([]byte)
	if len(x) == 0 && (ok || src == nil) {
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

// nullIDField reads a UUID; NULL is uuid.Nil.
type nullIDField struct{ to *uuid.UUID }

// Scan implements sql.Scanner.
func (f nullIDField) Scan(src any) error { return f.to.Scan(src) }

// WorkFields returns the destinations to scan SendColumns and VerificationColumns into.
func WorkFields(w *store.Work) []any {
	return append(sendFields(&w.Send), VerificationFields(&w.Verification)...)
}
