package console

import (
	"context"
	"encoding/csv"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
)

// exportColumns are the columns of an exported list, for a spreadsheet. Verification IDs are left
// out, since a reader who has the ID of a valid code could act as the code's holder.
var exportColumns = slices.Concat([]string{
	"at", "id", "app", "channel", "to", "recipient", "purpose", "status", "reason", "blocked_by", "retry_after",
	"count", "attempts",
	"provider", "provider_code", "took_ms",
}, store.LabelNames(), []string{
	"number", "locale", "network", "country", "recipients",
	"outcome", "outcome_at",
})

// These constants bound the exports of a process.
const (
	maxExportRows        = 1_000_000
	maxConcurrentExports = 2
	writeTimeout         = 10 * time.Second // a client that reads nothing for this long is disconnected
)

// separatorParameter is the parameter that chooses the separator between cells. The value
// "semicolon" is for spreadsheets in languages with a decimal comma. The default is "comma".
const separatorParameter = "separator"

// byteOrderMark makes spreadsheets read the file as UTF-8.
const byteOrderMark = "\ufeff"

// exportCSV streams the rows that the filters select, newest first. It writes an audit entry before
// it sends the first row.
func (console *Console) exportCSV(c echo.Context) error {
	values, err := layout.ParseRawQuery(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	separator, known := map[string]rune{"": ',', "comma": ',', "semicolon": ';'}[values.Get(separatorParameter)]
	if !known || len(values[separatorParameter]) > 1 {
		return fault.Invalid(separatorParameter, "invalid", "The separator is comma or semicolon.")
	}
	values.Del(separatorParameter)
	q, err := parseQuery(values.Encode(), console.Now(), time.UTC)
	if err != nil {
		return err
	}
	for _, name := range layout.PagingParameters {
		if q.given.Has(name) {
			return fault.Invalid(name, "unknown", "An export contains all rows. Limit it by from and to.")
		}
	}
	if c.Request().Method == http.MethodHead { // no export, so no audit entry
		setExportHeader(c)
		return c.NoContent(http.StatusOK)
	}
	end, err := console.beginExport()
	if err != nil {
		return err
	}
	defer end()
	q.filter.Limit = layout.MaxPageRows
	// The rows are read before the response begins, so that the answer can still be 503 if the
	// database is down.
	rows, err := console.sendsWithTimeFallback(c.Request().Context(), q.filter)
	if err != nil {
		return err
	}
	begun, err := console.recordExportBegin(c, q, rows)
	if err != nil {
		return err
	}
	n, more, err := console.writeCSV(c, q.filter, rows, separator)
	detail := "rows=" + strconv.Itoa(n)
	if more {
		detail += " more"
	}
	console.recordExportEnd(c, begun, detail, err)
	if err != nil {
		panic(http.ErrAbortHandler) // the connection is cut, so that half a file does not look like a whole file
	}
	return nil
}

// beginExport takes one of the maxConcurrentExports places for exports. The function end gives the
// place back. If all places are taken, beginExport returns an error.
func (console *Console) beginExport() (end func(), err error) {
	select {
	case console.exports <- struct{}{}:
		return func() { <-console.exports }, nil
	default:
		return nil, &server.Problem{
			Kind:   server.Unavailable,
			Detail: "Other exports are under way; try again when they have ended.",
		}
	}
}

// exportPerson streams all rows that name a recipient as a file.
func (console *Console) exportPerson(c echo.Context, p support.Target, act store.AuditEntry) error {
	end, err := console.beginExport()
	if err != nil {
		return err
	}
	defer end()
	err = console.Administration.ExportRecipient(c.Request().Context(), p, act, personFile{c})
	if err != nil && c.Response().Committed {
		panic(http.ErrAbortHandler) // the connection is cut, so that half a file does not look like a whole file
	}
	return err
}

// personFile is the response to the export of a person's data. The headers are set when the first
// data are written.
type personFile struct{ echo.Context }

// Write implements io.Writer.
func (f personFile) Write(part []byte) (int, error) {
	f.Response().Header().Set("Content-Type", "application/json")
	f.Response().Header().Set("Content-Disposition", `attachment; filename="person.json"`)
	server.SetAnswerTime(f, writeTimeout)
	return f.Response().Write(part)
}

// recordExportBegin writes the audit entry of an export that begins. The entry does not contain
// texts that the administrator typed. These texts may identify a person, and the audit log is never
// deleted.
func (console *Console) recordExportBegin(c echo.Context, q listQuery, rows []store.SendOrRefusal) (store.AuditEntry, error) {
	act, err := console.auth.NewAuditEntry(c, auth.ActionExport)
	if err != nil {
		return act, err
	}
	act.Outcome, act.Detail = store.AuditBegun, filterForAudit(q.given)
	if q.filter.Recipient != nil {
		act.Recipient, act.To = *q.filter.Recipient, store.ErasedMask
		if len(rows) > 0 {
			act.To = rows[0].To
		}
	}
	return act, console.DB.AddAuditEntry(c.Request().Context(), act)
}

// filterForAudit returns the filters for the audit entry, for example "from=… status=failed app".
// For a text field, it returns only the name, not the value.
func filterForAudit(given url.Values) string {
	var parts []string
	for _, p := range knownFilters {
		switch value := given.Get(p.name); {
		case value != "" && p.valueAudited:
			parts = append(parts, p.name+"="+value)
		case value != "":
			parts = append(parts, p.name)
		}
	}
	return strings.Join(parts, " ")
}

func (console *Console) recordExportEnd(c echo.Context, act store.AuditEntry, detail string, failed error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), 5*time.Second)
	defer cancel()
	outcome := store.AuditDone
	if failed != nil {
		outcome = store.AuditFailed
	}
	end, err := store.AuditEntryCompletion(act, outcome, detail)
	if err == nil {
		err = console.DB.AddAuditEntry(ctx, end)
	}
	if err != nil || failed != nil {
		console.Logger.WarnContext(ctx, "export incomplete, or its audit entry not stored", "account", act.Who, "detail", detail,
			"error", failed, "audit_error", err, logs.SeeDatabaseAway)
	}
}

func setExportHeader(c echo.Context) {
	h := c.Response().Header()
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", `attachment; filename="sends.csv"`)
}

// writeCSV writes the rows, and then the rows of the following pages. n is the number of written
// rows. If more rows are left after console.maxExportRows, the last line says so.
func (console *Console) writeCSV(c echo.Context, f store.Filter, rows []store.SendOrRefusal, separator rune) (n int, more bool, err error) {
	setExportHeader(c)
	if _, err := c.Response().Write([]byte(byteOrderMark)); err != nil {
		return 0, false, err
	}
	w := csv.NewWriter(c.Response())
	w.Comma, w.UseCRLF = separator, true // RFC 4180
	if err := w.Write(exportColumns); err != nil {
		return 0, false, err
	}
	for {
		codes, err := console.codesOf(c.Request().Context(), rows)
		if err != nil {
			return n, false, err
		}
		for _, row := range rows {
			if err := w.Write(codes.exportRow(row)); err != nil {
				return n, false, err
			}
			n++
		}
		w.Flush()
		if err := w.Error(); err != nil {
			return n, false, err
		}
		if len(rows) < f.Limit {
			return n, false, nil
		}
		server.SetAnswerTime(c, writeTimeout)
		f.Before = new(cursorOf(rows[len(rows)-1].Send))
		if rows, err = console.DB.Sends(c.Request().Context(), f); err != nil {
			return n, false, err
		}
		if n >= console.maxExportRows && len(rows) > 0 {
			_ = w.Write(missingRowsLine(n, rows[0], layout.Words(c)))
			w.Flush()
			return n, true, w.Error()
		}
	}
}

// missingRowsLine returns a line that says in its first cell that older rows are missing, and how
// to export them. next is the first of them. Rows of the same microsecond may be in both files.
func missingRowsLine(n int, next store.SendOrRefusal, w texts.Words) []string {
	cells := make([]string, len(exportColumns))
	cells[0] = w.Get("export.more", "n", strconv.Itoa(n), "to", next.LoggedAt.Add(time.Microsecond).UTC().Format(time.RFC3339Nano))
	return cells
}

// exportAddress returns the address that exports the rows of a list with this separator. If
// separator is "", the export uses the comma.
func exportAddress(given url.Values, separator string) string {
	all := maps.Clone(given)
	for _, name := range layout.PagingParameters {
		all.Del(name)
	}
	return layout.ListAddress("/v1/admin/sends.csv", all, separatorParameter, separator)
}

// exportRow returns the cells of a row. The cells have the values of the row's JSON and some more
// details.
func (c currentCodes) exportRow(s store.SendOrRefusal) []string {
	row := c.rowJSON(s)
	row["number"], row["locale"], row["network"], row["country"] = s.Number, s.Locale, s.Network, s.Country
	cells := make([]string, len(exportColumns))
	for i, name := range exportColumns {
		if value := row[name]; value != nil {
			cells[i] = withoutFormula(fmt.Sprint(value))
		}
	}
	return cells
}

// cellDividers are the characters at which a spreadsheet may end a cell or a line. The CSV writer
// quotes only cells with the separator of the file, but a spreadsheet may expect another separator.
const cellDividers = ",;\t|\r\n"

// withoutFormula returns a cell that no spreadsheet evaluates. It puts an apostrophe before each
// part of the cell that begins like a formula. It also replaces invalid UTF-8.
func withoutFormula(cell string) string {
	cell = strings.ToValidUTF8(cell, "\ufffd")
	var out strings.Builder
	for rest := cell; rest != ""; {
		part := rest
		if end := strings.IndexAny(rest, cellDividers); end >= 0 {
			part = rest[:end+1]
		}
		first := len(rest) == len(cell)
		if startsFormula(part) && (first || !strings.Contains(cellDividers, part)) {
			out.WriteByte('\'')
		}
		out.WriteString(part)
		rest = rest[len(part):]
	}
	return out.String()
}

// startsFormula reports whether a spreadsheet may read a text as a formula. That is so if the text
// begins with the sign of a formula or with an invisible character. The sign may be full-width, and
// white space or quote marks may come before it.
func startsFormula(s string) bool {
	begins := strings.TrimLeft(s, " \u00a0\u3000\"")
	unseen := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
	return strings.IndexAny(begins, "=+-@%|＝＋－＠％｜") == 0 || strings.IndexFunc(begins, unseen) == 0
}
