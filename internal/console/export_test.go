package console

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"sendcode/internal/console/auth"
	"sendcode/internal/console/consoletest"
	"sendcode/internal/console/listing"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
)

// exportOf reads a whole export.
func exportOf(t *testing.T, body []byte) (rows []map[string]string) {
	t.Helper()
	text, marked := strings.CutPrefix(string(body), byteOrderMark)
	if !marked || !strings.Contains(text, "\r\n") {
		t.Error("no mark of UTF-8, or other line ends")
	}
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, name := range records[0] {
			row[name] = record[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func TestExport(t *testing.T) {
	r := newRig(t)
	s := r.sent("ana@example.com", func(s *store.Send) { s.Reference = "=HYPERLINK(\"https://x.example\")" })
	r.Clock.Add(time.Second)
	r.refused("li@qq.com", "minute", 42*time.Second, 3, func(s *store.Send) { s.Reference = "two\nlines, \"quoted\"" })
	b := r.loggedIn()
	rec := b.Get("/v1/admin/sends.csv")
	want(t, rec, http.StatusOK)
	if h := rec.Header(); h.Get("Content-Disposition") != `attachment; filename="sends.csv"` || !strings.HasPrefix(h.Get("Content-Type"), "text/csv") {
		t.Errorf("%v", h)
	}
	lacks(t, rec, "ana@", "li@", s.VerificationID)
	rows := exportOf(t, rec.Body.Bytes())
	if len(rows) != 2 || len(rows[0]) != len(exportHead) {
		t.Fatalf("%v", rows)
	}
	holds(t, rows[0], map[string]string{
		"status": "refused", "blocked_by": "minute", "retry_after": "42", "count": "3", "to": "l•••@qq.com", "reference": "two\nlines, \"quoted\"", "took_ms": "",
	})
	holds(t, rows[1], map[string]string{
		"id": s.ID.String(), "at": listing.Stamp(s.LoggedAt).(string), "status": "sent", "retry_after": "", "recipient": s.Recipient.String(), "reference": "'" + s.Reference,
		"provider": "mx1.example.net", "took_ms": "184", "app": "shop", "number": "1", "network": "203.0.113.0/24",
	})
	if rows := exportOf(t, b.Get("/v1/admin/sends.csv?status=sent&recipient="+s.Recipient.String()).Body.Bytes()); len(rows) != 1 || rows[0]["id"] != s.ID.String() {
		t.Errorf("filtered: %v", rows)
	}
	if rows := exportOf(t, b.Get("/v1/admin/sends.csv?app=other").Body.Bytes()); len(rows) != 0 {
		t.Errorf("nothing: %v", rows)
	}
	for _, query := range []string{"?limit=5", "?cursor=" + listing.WriteCursor(store.Mark{At: consoletest.Start}), "?newer=" + listing.WriteCursor(store.Mark{At: consoletest.Start}), "?status=lost"} {
		want(t, b.Get("/v1/admin/sends.csv"+query), http.StatusUnprocessableEntity)
	}
	contains(t, b.Get("/admin?status=sent&limit=1"), `href="/v1/admin/sends.csv?status=sent" download`)
	contains(t, b.Get("/admin"), `href="/v1/admin/sends.csv" download`)
}

// An export is recorded before its first row, and its end after the last one; the record names no recipient in the clear.
func TestExportIsAnAct(t *testing.T) {
	r := newRig(t)
	s := r.sent("ana@example.com", func(s *store.Send) { s.Reference = "ana@example.com" })
	b := r.loggedIn()
	want(t, b.Get("/v1/admin/sends.csv?reference=ana@example.com&status=sent&recipient="+s.Recipient.String()), http.StatusOK)
	acts := r.Entries(auth.ActionExport)
	if len(acts) != 2 || acts[0].Outcome != store.AuditDone || acts[0].Ends != acts[1].ID || acts[0].Detail != "rows=1" || acts[1].Outcome != store.AuditBegun ||
		acts[1].Detail != "status=sent reference recipient" || acts[1].Who != "admin" || acts[1].Recipient != s.Recipient || acts[1].To != "a•••@example.com" {
		t.Errorf("%+v", acts)
	}
	contains(t, b.Get("/admin/acts"), "exported sends")
	lacks(t, r.as(auth.Reader).Get("/admin"), "sends.csv")
	contains(t, r.as(auth.Operator).Get("/admin"), "sends.csv")
	r.Break("AddAuditEntry")
	lacks(t, want(t, b.Get("/v1/admin/sends.csv"), http.StatusServiceUnavailable), "a•••")
}

// Many pages, longer than the server waits for an answer; and a log that goes away in the middle breaks the file off.
func TestExportStreams(t *testing.T) {
	r, _, base := served(t)
	const n = 5*listing.MaxLimit + 17
	var rows []store.Send
	for i := range n {
		rows = append(rows, store.Send{ID: uuid.UUID{5, 14: byte(i >> 8), 15: byte(i)}, App: "shop", Channel: "email", BlockedBy: "minute", Count: 1})
	}
	r.Must(r.Log.Refused(t.Context(), rows))
	get := func() ([]byte, error) { return io.ReadAll(open(t, base+"/v1/admin/sends.csv").Body) }
	pages := 0
	r.Log.SetFault(func(method string) sqlite.Fault {
		if method == "Sends" {
			if pages++; pages > 1 {
				<-time.After(250 * time.Millisecond) // together more than the server's second
			}
		}
		return sqlite.None
	})
	body, err := get()
	r.Must(err)
	seen := map[string]bool{}
	for _, row := range exportOf(t, body) {
		seen[row["id"]] = true
	}
	if len(seen) != n || pages != 6 {
		t.Errorf("%d rows of %d, %d pages", len(seen), n, pages)
	}
	pages = 0
	r.Log.SetFault(func(method string) sqlite.Fault {
		if method == "Sends" {
			if pages++; pages > 2 {
				return sqlite.Down
			}
		}
		return sqlite.None
	})
	if body, err := get(); err == nil {
		t.Errorf("half an export of %d bytes looks like a whole one", len(body))
	}
	acts := r.Entries(auth.ActionExport)
	if acts[0].Outcome != store.AuditFailed || acts[0].Detail != fmt.Sprint("rows=", 2*listing.MaxLimit) {
		t.Errorf("%+v", acts[0])
	}
}

func TestExportsAreBounded(t *testing.T) {
	r := newRig(t)
	for range maxExports {
		r.console.exports <- struct{}{}
	}
	b := r.loggedIn()
	want(t, b.Get("/v1/admin/sends.csv"), http.StatusServiceUnavailable)
	<-r.console.exports
	want(t, b.Get("/v1/admin/sends.csv"), http.StatusOK)
	want(t, b.Get("/v1/admin/sends.csv"), http.StatusOK) // the place is given back
}

func TestHarmless(t *testing.T) {
	for cell, want := range map[string]string{
		"": "", "order 7": "order 7", "a=b": "a=b", "1-2": "1-2", "2026-03-04": "2026-03-04", "•••": "•••", "'x": "'x",
		"=1+1": "'=1+1", "+49•••": "'+49•••", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t'=1", "\r=1": "'\r'=1", "\n=1": "'\n'=1", "\x00=1": "'\x00=1",
		" =1": "' =1", "\u00a0+1": "'\u00a0+1", "\u3000@x": "'\u3000@x", "＝1": "'＝1", "＋1": "'＋1", "－1": "'－1", "＠x": "'＠x",
		"\u200b=1": "'\u200b=1", "\ufeff=1": "'\ufeff=1", "\xff=1": "\ufffd=1",
		// Where lines are divided at semicolons, tabs or bars, or a line's end counts in the midst of a cell.
		"x;=1;": "x;'=1;", ";+1": ";'+1", "x\t=1": "x\t'=1", "x|\u00a0@y": "x|'\u00a0@y", "x\r\n=1": "x\r\n'=1", "x;\"=1\";": "x;'\"=1\";", "\"=1": "'\"=1",
		"a\r\nb": "a\r\nb", "a; b, -1": "a; b, -1", "x;;y": "x;;y", "x;\u200b=1": "x;'\u200b=1",
	} {
		if got := withoutFormula(cell); got != want {
			t.Errorf("%q becomes %q, want %q", cell, got, want)
		}
	}
}

// A file has the cells of its row, none begins like a formula, and none lost text.
func FuzzCell(f *testing.F) {
	for _, seed := range []string{"=cmd|' /C calc'!A0", "+4915112345678", "\"", "a\r\nb", "\x00", "\ufeff=1", "  -1", "＝1", "\xff\xfe", "x;=1;", "a\t\"=1", "|@x", "a\r\n-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cell string) {
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		w.UseCRLF = true
		if err := w.Write([]string{"x", withoutFormula(cell), "y"}); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		line := b.String()
		record, err := csv.NewReader(&b).Read()
		if err != nil || len(record) != 3 || record[2] != "y" {
			t.Fatalf("%q is read as %q: %v", cell, record, err)
		}
		got := record[1]
		if strings.ContainsAny(string([]rune(strings.TrimLeft(got, " \u00a0\u3000") + "x")[0]), "=+-@\t\r\x00＝＋－＠") {
			t.Errorf("%q is still a formula: %q", cell, got)
		}
		for part := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(dividers, r) }) {
			if strings.IndexAny(strings.TrimLeft(part, " \u00a0\u3000\""), "=+-@\x00＝＋－＠") == 0 {
				t.Errorf("%q has a formula where lines are divided at something else: %q", cell, line)
			}
		}
		plain := func(s string) string {
			return strings.NewReplacer("\r", "", "\n", "", "'", "").Replace(strings.ToValidUTF8(s, "\ufffd"))
		}
		if !utf8.ValidString(got) || plain(got) != plain(cell) {
			t.Errorf("%q lost something: %q", cell, got)
		}
	})
}
