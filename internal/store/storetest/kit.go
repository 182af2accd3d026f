package storetest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/migrations"
)

// Show formats a value so that equal values have equal texts: an instant has its zone, and a nil
// list equals an empty one.
func Show(v any) string { return fmt.Sprintf("%+v", v) }

// IsFull ends the test unless err is the error of a write on a full disk, which wrote nothing.
func IsFull(t *testing.T, err error) {
	t.Helper()
	Certain(t, err)
	Is(t, err, store.ErrNoSpace)
}

// FillWithSends admits sends until the database is full. It returns how many were admitted.
func FillWithSends(t *testing.T, f *Fixture, from, limit int) (taken int) {
	t.Helper()
	for n := range limit {
		if _, err := f.Begin(t.Context(), f.Intent(from+n)); err != nil {
			IsFull(t, err)
			return n
		}
	}
	t.Fatalf("%d sends fit", limit)
	return limit
}

// WritableWithRows checks that the database can be written again and has want rows, none of a
// failed Begin.
func WritableWithRows(t *testing.T, f *Fixture, want int) {
	t.Helper()
	OK(t, f.Ping(t.Context()))
	Equal(t, "rows", len(f.All(t)), want)
}

// Traces has the values of a recipient that must not be found after an erasure.
var Traces = map[string]string{
	"masked": "q•••@unusual.example", "reference": "order of Quentin", "network": "198.51.100.0/24",
	"request": "order-of-quentin", "holder": "s:quentin", "details": "Pay Ana 40.00 EUR",
	"domain": "unusual.example", "prefix": "+9997771", "address": "quentin.unusual@unusual.example", "locale": "gsw-CH",
	"nonce":         "nonce of quentin",
	"caller's code": "code for quentin", "why it was suppressed": "Quentin called",
	"why that ended":     "Quentin called again",
	"the server's words": "quentin is unknown here",
}

// WriteTraces writes, for recipient n, rows in every table and state that can name a recipient.
func WriteTraces(t *testing.T, f *Fixture, n int) {
	t.Helper()
	f.Serial += 1000
	mark := func(in *store.Intent) {
		in.Send.To, in.Send.Network, in.Send.Locale = Traces["masked"], Traces["network"], Traces["locale"]
		in.Send.Reference, in.Send.RequestID, in.Send.Prefix, in.Send.Country = Traces["reference"], Traces["request"], Traces["prefix"], "ZZ"
		in.Verification.Holder, in.Verification.Details, in.MinLife = Traces["holder"], Traces["details"], time.Hour
		for _, c := range append(in.Send.Columns(), in.Verification.Columns()...) {
			if text, ok := c.Field.(*string); ok && c.Flags&store.PersonalColumn != 0 && *text == "" {
				*text = Traces["reference"]
			}
		}
		in.Verification.Sealed, in.Verification.Nonce = []byte(Traces["address"]), []byte(Traces["nonce"])
	}
	for i := range 4 { // the first of these stays under way
		begun := f.Admit(t, f.Intent(n, mark, withCode(Traces["caller's code"])))
		switch i {
		case 1:
			f.End(t, begun.Send.ID, Sent)
		case 2:
			Must(f.Postpone(t.Context(), store.Postponement{AttemptID: Held(begun.Send.ID, 1), After: time.Second}))(t)
		case 3:
			f.End(t, begun.Send.ID, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected, Refund: true, BadAddress: true})
		}
	}
	wrong := withKey(Wrong(f.Admit(t, f.Intent(n, mark)).Verification.ID), 7, 7)
	wrong.Network = Traces["network"]
	Must(f.Check(t.Context(), wrong))(t)
	OK(t, f.AddCarrierHold(t.Context(), recipient.Email, recipient.Hash{15: byte(n)}, time.Millisecond))
	refusal := f.Refusal(n, func(s *store.SendOrRefusal) {
		s.To, s.Network, s.Locale = Traces["masked"], Traces["network"], Traces["locale"]
		s.Prefix, s.Country = Traces["prefix"], "ZZ"
	})
	OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{refusal}))
	h := recipient.Hash{15: byte(n)}
	must2(f.Suppress(t.Context(), store.Suppression{
		ID: uuid.New(), Channel: recipient.Email, Address: h, Recipient: h, To: Traces["masked"], Cause: store.CauseManual,
		Detail: Traces["why it was suppressed"], Server: "mx", Words: Traces["the server's words"],
	}, time.Hour, nil))(t)
	Must(f.LiftSuppressions(t.Context(), store.LiftSuppressionsRequest{Channel: recipient.Email, Address: h, Why: Traces["why that ended"]},
		nil))(t)
	OK(t, f.AddAuditEntry(t.Context(),
		f.Act(func(a *store.AuditEntry) { a.Recipient, a.To = recipient.Hash{15: byte(n)}, Traces["masked"] })))
}

// FoundIn returns the names of the traces in a dump or a file, as text or as the hex of binary
// columns.
func FoundIn(content []byte) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(Traces)) {
		hex := []byte(fmt.Sprintf("%x", Traces[name]))
		if bytes.Contains(content, []byte(Traces[name])) || bytes.Contains(content, hex) {
			names = append(names, name)
		}
	}
	return names
}

// OnActs are statements by which an intruder may try to change the record of an act. None may
// change an entry.
var OnActs = []string{
	`UPDATE audit_entries SET actor = 'other'`, `UPDATE audit_entries SET reason = '' WHERE false`,
	`DELETE FROM audit_entries`, `DELETE FROM audit_entries WHERE actor = 'mei'`,
	`DELETE FROM audit_recipients`, `UPDATE audit_recipients SET masked = 'b•••@example.com'`,
	`UPDATE audit_recipients SET recipient = decode(repeat('02', 16), 'hex'), masked = '•••'`,
	`UPDATE audit_recipients SET entry = '00000000-0000-7000-8000-000000000000', masked = '•••'`,
	`INSERT INTO audit_entries SELECT * FROM audit_entries ON CONFLICT (id) DO UPDATE SET actor = 'other'`,
	`INSERT INTO audit_recipients SELECT * FROM audit_recipients ON CONFLICT (entry) DO UPDATE SET masked = 'x'`,
}

// MigrateLater applies one more migration than the program has, twice, to a database that has all
// others.
func MigrateLater(t *testing.T, own fs.FS, dir string, migrate func(context.Context, fs.FS) error) {
	t.Helper()
	files := fstest.MapFS{dir + "/99998_later.sql": {
		Data: []byte("-- +goose Up\nALTER TABLE sends ADD later integer NOT NULL DEFAULT 0;\n"),
	}}
	for _, name := range Must(fs.Glob(own, dir+"/*.sql"))(t) {
		files[name] = &fstest.MapFile{Data: Must(fs.ReadFile(own, name))(t)}
	}
	var applied []string
	ctx := migrations.WithReport(t.Context(), func(file string) { applied = append(applied, file) })
	for range 2 {
		OK(t, migrate(ctx, files))
	}
	Equal(t, "applied", applied, []string{"99998_later.sql"})
}
