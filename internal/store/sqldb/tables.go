package sqldb

import (
	"strings"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

// These tables are made from the Columns of the types in package store.
var (
	SendTable = sqlgen.New("sends", "s", (*store.Send).Columns,
		map[string]string{
			"refund_due": refundDueSQL, "due_at": dueAtSQL,
			"status": statusSQL,
		})
	sendOrRefusalTable = sqlgen.New("sends", "s", (*store.SendOrRefusal).Columns,
		map[string]string{
			"refund_due": refundDueSQL, "due_at": dueAtSQL,
			"status": statusSQL, "requests": "1", "recipients": "0", "retry_after": "0", "blocked_by": "''",
		})
	RefusalTable      = sendOrRefusalTable.AsRefusals(map[string]string{"status": "'refused'", "finished_at": "s.logged_at"})
	VerificationTable = sqlgen.New("verifications", "v", (*store.Verification).Columns, nil)

	suppressionTable   = sqlgen.New("suppressions", "suppressions", (*store.Suppression).Columns, nil)
	prefixPauseTable   = sqlgen.New("prefix_pauses", "p", (*store.PrefixPause).Columns, nil)
	lowConversionTable = sqlgen.New("low_conversions", "l", (*store.LowConversion).Columns, nil)
	providerEventTable = sqlgen.New("provider_events", "e", (*store.ProviderEvent).Columns, nil)
	accountTable       = sqlgen.New("accounts", "a", (*store.Account).Columns, nil)
	sessionTable       = sqlgen.New("sessions", "s", (*store.Session).Columns,
		map[string]string{"factor_at": "f.created_at"})
	pendingReceiptTable = sqlgen.New("pending_receipts", "pending_receipts", (*store.PendingReceipt).Columns, nil)
	auditEntryTable     = sqlgen.New("audit_entries", "a", (*store.AuditEntry).Columns, map[string]string{
		"recipient": "p.recipient", "masked": "coalesce(p.masked, '')",
	})
	appEventTable = sqlgen.New("app_events", "e", (*store.AppEvent).Columns, map[string]string{
		"channel": "coalesce(s.channel, v.channel, '')", "purpose": "coalesce(s.purpose, v.purpose, '')",
		"masked": "coalesce(s.masked, v.masked, '')", "reference": "coalesce(s.reference, v.reference, '')",
	})
)

// These expressions read fields of a send from the small tables refunds and outbox, by key. With
// EXISTS, Postgres might read such a table as a whole.
const (
	refundDueSQL = `CASE WHEN s.status = 'failed' THEN (SELECT true FROM refunds r WHERE r.id = s.id) IS NOT NULL ELSE false END`
	dueAtSQL     = `CASE WHEN s.status IN ('queued', 'sending') THEN (SELECT f.due_at FROM outbox f WHERE f.id = s.id) END`
)

// statusSQL is the receipt if the message went out or may have, otherwise the send's status. So a
// receipt that comes before the outcome shows only after the outcome.
const statusSQL = `CASE WHEN s.receipt <> '' AND s.status IN ('sent', 'unknown') THEN s.receipt ELSE s.status END`

// These are SELECT lists for rows s of sends and v of verifications. SendOrRefusalColumns and
// refusalColumns are for SendOrRefusal.
var (
	SendColumns          = SendTable.SelectList()
	SendOrRefusalColumns = sendOrRefusalTable.SelectList()
	refusalColumns       = RefusalTable.SelectList()
	VerificationColumns  = VerificationTable.SelectList()
)

func sendFields(s *store.Send) []any { return SendTable.Destinations(s) }

func sendOrRefusalFields(r *store.SendOrRefusal) []any { return sendOrRefusalTable.Destinations(r) }

func VerificationFields(v *store.Verification) []any { return VerificationTable.Destinations(v) }

// WorkDestinations scan SendColumns and VerificationColumns.
func WorkDestinations(w *store.Work) []any {
	return append(sendFields(&w.Send), VerificationFields(&w.Verification)...)
}

// WorkAndCodeDestinations scan outbox.sealed, SendColumns and VerificationColumns.
func WorkAndCodeDestinations(w *store.Work) []any {
	return append([]any{&w.Code}, WorkDestinations(w)...)
}

// SetLabelsSQL is the part of an UPDATE that sets each label to the value of the same name with the
// prefix from, such as "@".
func SetLabelsSQL(from string) string {
	return strings.Join(sqlgen.MapSlice(store.LabelNames(), func(name string) string { return name + " = " + from + name }), ", ")
}

// RefundColumns are of sends s and verifications v, and follow the ID and the attempt. The class is
// empty if the verification was deleted before its send.
const RefundColumns = `s.app, s.channel, s.purpose, s.recipient, s.verification_id, coalesce(v.class, ''), v.sealed`

// RefundFields scan an ID, an attempt and RefundColumns.
func RefundFields(r *store.Refund) []any {
	v := &r.Verification
	return []any{
		&r.ID, &r.Attempt, &v.App, &v.Channel, &v.Purpose, sqlgen.ScannerFor(&v.Recipient), &v.ID, &v.Class,
		&v.Sealed,
	}
}
