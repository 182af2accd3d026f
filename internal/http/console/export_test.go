package console

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/store/storetest"
	"sendcode/internal/verify/support"
)

func exportOf(t *testing.T, body []byte) (rows []map[string]string) {
	t.Helper()
	text, marked := strings.CutPrefix(string(body), byteOrderMark)
	if !marked || !strings.Contains(text, "\r\n") {
		t.Error("no mark of UTF-8, or other line ends")
	}
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	servertest.OK(t, err)
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, name := range records[0] {
			row[name] = record[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// An export has the rows of the list (pages.txt has a whole export). Audit entries record the
// beginning of the export, before its first row, and its end. They contain no recipient in the
// clear.
func TestExport(t *testing.T) {
	r := newRig(t)
	r.writeSent("bo@example.com", func(s *store.Send) { s.Reference = "two\nlines, \"quoted\"" })
	r.Clock.Add(time.Second)
	s := r.writeSent("ana@example.com", func(s *store.Send) { s.Reference = "=HYPERLINK(\"https://x.example\")" })
	r.Clock.Add(time.Second)
	r.writeRefused("li@qq.com", "minute", 42*time.Second, 3)
	b := r.LoggedIn()
	rec := want(t, b.Get("/v1/admin/sends.csv"), http.StatusOK)
	if h := rec.Header(); h.Get("Content-Disposition") != `attachment; filename="sends.csv"` ||
		!strings.HasPrefix(h.Get("Content-Type"), "text/csv") {
		t.Errorf("%v", h)
	}
	lacks(t, rec, s.VerificationID)
	rows := exportOf(t, rec.Body.Bytes())
	holds(t, rows[0], map[string]string{"status": "refused", "retry_after": "42", "took_ms": ""})
	holds(t, rows[1], map[string]string{
		"id": s.ID.String(), "retry_after": "", "reference": "'" + s.Reference,
		"outcome": "waiting", "outcome_at": "",
	})
	holds(t, rows[2], map[string]string{"reference": "two\nlines, \"quoted\""})
	head := want(t, b.Do(http.MethodHead, "/v1/admin/sends.csv", ""), http.StatusOK) // HEAD is not an export, and is not recorded
	servertest.Same(t, "type of HEAD", head.Header().Get("Content-Type"), rec.Header().Get("Content-Type"))
	cursor := layout.EncodeCursor(store.Cursor{At: consoletest.Start})
	for _, query := range []string{"?limit=5", "?cursor=" + cursor, "?newer=" + cursor, "?status=lost"} {
		want(t, b.Get("/v1/admin/sends.csv"+query), http.StatusUnprocessableEntity)
	}
	rec = b.Get("/v1/admin/sends.csv?reference=" + url.QueryEscape(s.Reference) + "&status=sent&recipient=" + s.Recipient.String())
	servertest.Same(t, "rows of a filter", len(exportOf(t, rec.Body.Bytes())), 1)
	acts := r.Entries(auth.ActionExport)
	if len(acts) != 4 || acts[0].Outcome != store.AuditDone || acts[0].Completes != acts[1].ID || acts[0].Detail != "rows=1" ||
		acts[1].Outcome != store.AuditBegun || acts[1].Detail != "status=sent reference recipient" || acts[1].Who != "admin" ||
		acts[1].Recipient != s.Recipient || acts[1].To != "a•••@example.com" {
		t.Errorf("%+v", acts)
	}
	contains(t, b.Get("/admin?status=sent&limit=1"), `href="/v1/admin/sends.csv?status=sent"`,
		`href="/v1/admin/sends.csv?separator=semicolon&amp;status=sent"`)
	semicolons := want(t, b.Get("/v1/admin/sends.csv?status=sent&separator=semicolon"), http.StatusOK).Body.String()
	if !strings.HasPrefix(semicolons, byteOrderMark+"at;id;app;") || strings.Count(semicolons, "\r\n") != 4 { // one of the four line ends is in a cell
		t.Errorf("by semicolons: %s", semicolons)
	}
	for _, separator := range []string{"tab", "comma&separator=comma"} {
		contains(t, want(t, b.Get("/v1/admin/sends.csv?separator="+separator), http.StatusUnprocessableEntity), `"field":"separator"`)
	}
	lacks(t, r.As("reader").Get("/admin"), "sends.csv")
	contains(t, r.As("operator").Get("/admin"), `href="/v1/admin/sends.csv"`)
	ended := r.Browser() // a link of the ended session leads to the login; a script's request does not
	redirects(t, ended.Get("/v1/admin/sends.csv", "Accept", "text/html,*/*"), "/admin/login")
	want(t, ended.Get("/v1/admin/sends.csv"), http.StatusUnauthorized)
	r.Break("AddAuditEntry")
	lacks(t, want(t, b.Get("/v1/admin/sends.csv"), http.StatusServiceUnavailable), "a•••")
}

// serveWithShortTimeouts returns a console behind a server whose own timeouts are much shorter than
// an export.
func serveWithShortTimeouts(t *testing.T) (r *rig, base string) {
	t.Helper()
	r = newRig(t)
	s := httptest.NewUnstartedServer(r.Handler)
	s.Config.ReadTimeout, s.Config.WriteTimeout = time.Second, time.Second
	s.Start()
	t.Cleanup(s.Close)
	return r, s.URL
}

// deadlineRecorder is a response that records its deadline.
type deadlineRecorder struct {
	http.ResponseWriter
	until *time.Time
}

func (r deadlineRecorder) SetWriteDeadline(until time.Time) error { *r.until = until; return nil }

// If the database may work longer than the server usually waits for an answer, the answer's time is
// extended by the database's time and by the time to write the answer.
func TestWriteDeadlineOfLongAnswers(t *testing.T) {
	r := newRigWithTraffic(t)
	var until time.Time
	handler := r.Handler
	r.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { handler.ServeHTTP(deadlineRecorder{w, &until}, req) })
	b, row := r.LoggedIn(), r.writeSent("gil@example.com")
	for name, c := range map[string]struct {
		ask   func()
		bound time.Duration
	}{
		"statistics": {func() { b.Script(http.StatusOK, "GET", "/v1/admin/stats", "") }, maxStatsTime},
		"overview":   {func() { want(t, b.Get("/admin/overview"), http.StatusOK) }, maxStatsTime},
		"erasing": {func() {
			b.Script(http.StatusNoContent, "POST", "/v1/admin/erase",
				`{"channel":"email","to":"ana@example.com","purpose":"login","reason":"ticket 7"}`)
		}, support.EraseTimeout},
		"erasing by a form": {func() {
			redirects(t, b.Post("/admin/sends/"+row.ID.String()+"/erase", url.Values{"reason": {"ticket 7"}, "sure": {"yes"}}),
				explain.SendPageAddress(row.ID)+"?done="+auth.ActionEraseRecipient)
		}, support.EraseTimeout},
	} {
		until = time.Time{}
		least := time.Now().Add(c.bound + time.Second)
		if c.ask(); until.Before(least) {
			t.Errorf("%s has time until %v, want %v", name, until, least)
		}
	}
}

// requestExport requests an export with the token. The test reads the body while it arrives.
func requestExport(t *testing.T, base string) io.Reader {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), servertest.Patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/admin/sends.csv", nil)
	servertest.OK(t, err)
	req.Header.Set("Authorization", "Bearer "+consoletest.Token)
	resp, err := http.DefaultClient.Do(req)
	servertest.OK(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp.Body
}

// writeManyRefused writes n rows of refusals.
func (r *rig) writeManyRefused(n int, reference string) {
	r.Helper()
	var rows []store.SendOrRefusal
	for i := range n {
		rows = append(rows, store.SendOrRefusal{Send: store.Send{
			ID: uuid.UUID{5, 14: byte(i >> 8), 15: byte(i)}, App: "shop", Channel: "email",
			Labels: store.Labels{Reference: reference},
		}, Refusal: store.Refusal{BlockedBy: "minute", Count: 1}})
	}
	r.Must(r.Store.RecordRefusals(r.Context(), rows))
}

// An export of many pages may take longer than the server waits for an answer. If the database
// fails in the middle, the file is cut off.
func TestExportStreams(t *testing.T) {
	r, base := serveWithShortTimeouts(t)
	const n = 5*layout.MaxPageRows + 17
	r.writeManyRefused(n, "")
	get := func() ([]byte, error) { return io.ReadAll(requestExport(t, base)) }
	pages, away := 0, 99
	r.Store.SetFault(func(method string) sqlitetest.Fault {
		if method != "Sends" {
			return sqlitetest.None
		}
		if pages++; pages > away {
			return sqlitetest.Down
		}
		if pages > 1 {
			<-time.After(250 * time.Millisecond) // all waits together exceed the server's timeout of one second
		}
		return sqlitetest.None
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
	pages, away = 0, 2
	if body, err := get(); err == nil {
		t.Errorf("half an export of %d bytes looks like a whole one", len(body))
	}
	acts := r.Entries(auth.ActionExport)
	if acts[0].Outcome != store.AuditFailed || acts[0].Detail != fmt.Sprint("rows=", 2*layout.MaxPageRows) {
		t.Errorf("%+v", acts[0])
	}
}

// If a file has not all rows, its last line says so, in the reader's language, and names the time
// with which another export has the others. The audit entry says so, too. A file that just has all
// rows has no such line.
func TestExportTellsOfMissingRows(t *testing.T) {
	r := newRig(t)
	r.console.maxExportRows = layout.MaxPageRows
	r.writeManyRefused(layout.MaxPageRows, "")
	b := r.LoggedIn()
	export := func(query string, more ...string) []map[string]string {
		return exportOf(t, want(t, b.Get("/v1/admin/sends.csv"+query, more...), http.StatusOK).Body.Bytes())
	}
	servertest.Same(t, "rows of a whole file", len(export("")), layout.MaxPageRows)
	servertest.Same(t, "detail", r.Entries(auth.ActionExport)[0].Detail, "rows=200")
	r.Clock.Add(time.Second)
	newest := r.writeRefused("li@qq.com", "minute", 42*time.Second, 3)
	rows := export("?separator=comma")
	servertest.Same(t, "rows of a bounded file", len(rows), layout.MaxPageRows+1)
	servertest.Same(t, "detail", r.Entries(auth.ActionExport)[0].Detail, "rows=200 more")
	last := rows[layout.MaxPageRows]
	text, to, _ := strings.Cut(last["at"], "to=")
	servertest.Same(t, "the line", text+last["id"]+last["status"],
		"Rows are missing: this file has the newest 200. Export the older ones with ")
	seen := map[string]bool{}
	for _, row := range append(rows[:layout.MaxPageRows], export("?to="+url.QueryEscape(to))...) {
		seen[row["id"]] = true
	}
	if !seen[newest.ID.String()] || len(seen) != layout.MaxPageRows+1 {
		t.Errorf("both files have %d rows", len(seen))
	}
	b.Post("/admin/prefer", url.Values{"language": {"zh-Hans"}, "back": {"/admin"}})
	if last := export("")[layout.MaxPageRows]["at"]; !strings.HasPrefix(last, "缺少部分行：此文件只有最新的 200 行。") {
		t.Error(last)
	}
}

// nilIfEmpty returns the value that JSON has for a cell.
func nilIfEmpty(cell string) any {
	if cell == "" {
		return nil
	}
	return cell
}

// Rows have the outcome of their code, with its time, in a list, on the row's own page and in an
// export.
func TestListShowsOutcomes(t *testing.T) {
	r := newRig(t)
	check := func(c store.CheckRequest) {
		r.Clock.Add(time.Second)
		r.Must(r.Store.Check(t.Context(), c))
	}
	expired := r.writeSent("ex@example.com")
	r.Clock.Add(9 * time.Minute)
	approved, locked, canceled := r.writeSent("ap@example.com"), r.writeSent("lo@example.com"), r.writeSent("ca@example.com")
	check(storetest.Right(approved.VerificationID))
	right := r.Clock.Now()
	for range 5 {
		check(storetest.Wrong(locked.VerificationID))
	}
	fifth := r.Clock.Now()
	r.Must(r.Store.Cancel(t.Context(), canceled.VerificationID))
	waiting := r.writeSent("wa@example.com")
	refused := r.writeRefused("wa@example.com", "minute", time.Minute, 1,
		func(s *store.SendOrRefusal) { s.VerificationID = waiting.VerificationID })
	r.Clock.Add(time.Minute)
	b := r.LoggedIn()
	inFile := map[string]map[string]string{}
	for _, row := range exportOf(t, want(t, b.Get("/v1/admin/sends.csv"), http.StatusOK).Body.Bytes()) {
		inFile[row["id"]] = row
	}
	listed := map[string]map[string]any{}
	for _, row := range b.List("sends", "/v1/admin/sends") {
		listed[row["id"].(string)] = row
	}
	for _, c := range []struct {
		id      uuid.UUID
		outcome any
		at      time.Time
	}{
		{approved.ID, "entered", right},
		{locked.ID, "locked", fifth},
		{canceled.ID, "canceled", fifth},
		{waiting.ID, "waiting", time.Time{}},
		{expired.ID, "expired", expired.LoggedAt.Add(10 * time.Minute)},
		{refused.ID, nil, time.Time{}},
	} {
		type outcome struct{ outcome, outcomeAt any }
		id, wanted := c.id.String(), outcome{c.outcome, layout.Timestamp(c.at)}
		for how, row := range map[string]map[string]any{
			"in a list": listed[id], "alone": b.Script(http.StatusOK, "GET", "/v1/admin/sends/"+id, ""),
		} {
			servertest.Same(t, fmt.Sprint(how, " ", c.outcome), outcome{row["outcome"], row["outcome_at"]}, wanted)
		}
		exported := outcome{nilIfEmpty(inFile[id]["outcome"]), nilIfEmpty(inFile[id]["outcome_at"])}
		servertest.Same(t, fmt.Sprint("exported ", c.outcome), exported, wanted)
	}
}

func TestExportsAreBounded(t *testing.T) {
	r := newRig(t)
	for range maxConcurrentExports {
		r.console.exports <- struct{}{}
	}
	b := r.LoggedIn()
	want(t, b.Get("/v1/admin/sends.csv"), http.StatusServiceUnavailable)
	<-r.console.exports
	want(t, b.Get("/v1/admin/sends.csv"), http.StatusOK)
	want(t, b.Get("/v1/admin/sends.csv"), http.StatusOK) // the place of an export is free again
}

func TestWithoutFormula(t *testing.T) {
	for cell, want := range map[string]string{
		"": "", "a=b": "a=b", "1-2": "1-2", "'x": "'x", "=1+1": "'=1+1", "+49•••": "'+49•••", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)",
		"%x": "'%x", "|x": "'|x", "％x": "'％x", " |cmd": "' |cmd", "50%": "50%", "x;%y": "x;'%y", "\tx": "'\tx", "\rx": "'\rx",
		"\nx": "'\nx", "\t=1": "'\t'=1", "\x00=1": "'\x00=1", " =1": "' =1", "\u00a0+1": "'\u00a0+1", "\u3000@x": "'\u3000@x", "＝1": "'＝1",
		"＠x": "'＠x", "\u200b=1": "'\u200b=1", "\xff=1": "\ufffd=1",
		// A program may divide lines at commas, semicolons, tabs or bars, or at a line's end within
		// a cell, so each part is treated as a cell.
		"x;=1;": "x;'=1;", ";+1": ";'+1", "x\t=1": "x\t'=1", "x|\u00a0@y": "x|'\u00a0@y", "x\r\n=1": "x\r\n'=1", "x;\"=1\";": "x;'\"=1\";",
		"a\r\nb": "a\r\nb", "a; b, -1": "a; b,' -1", "x;;y": "x;;y",
	} {
		servertest.Same(t, cell, withoutFormula(cell), want)
	}
}

// A file has the cells of its row. No cell begins like a formula, and no cell has lost text.
func FuzzCell(f *testing.F) {
	f.Add("=cmd|' /C calc'!A0") // testdata/fuzz has others
	f.Fuzz(func(t *testing.T, cell string) {
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		w.UseCRLF = true
		servertest.OK(t, w.Write([]string{"x", withoutFormula(cell), "y"}))
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
		for part := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(cellDividers, r) }) {
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
