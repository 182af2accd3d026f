package support

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"sendcode/internal/store"
)

const exportPageRows = 500 // rows of an export in memory at once

// ExportRecipient writes all rows about the recipient to w as a JSON object: the recipient has a
// right to these data (GDPR, article 15). For each table, the object has the rows, their meaning,
// how long they are kept, and why columns are left out. An audit entry is added before a row is
// read, and another after the export. If ExportRecipient fails, w may contain a part of the export.
// Errors: those of w; fault.Unavailable.
func (ad *Administration) ExportRecipient(ctx context.Context, target Target, act store.AuditEntry, w io.Writer) error {
	target.App, target.Purpose = "", ""
	act = target.auditEntryWithTarget(act)
	act.Outcome = store.AuditBegun
	if err := ad.Store.AddAuditEntry(ctx, act); err != nil {
		return err
	}
	n, err := ad.writeExport(ctx, target, w)
	outcome := store.AuditDone
	if err != nil {
		outcome = store.AuditFailed
	}
	ad.recordEnd(context.WithoutCancel(ctx), act, outcome, fmt.Sprint("rows=", n))
	return err
}

// writeExport returns the number of rows that it wrote.
func (ad *Administration) writeExport(ctx context.Context, target Target, w io.Writer) (n int, err error) {
	out, table := &bytes.Buffer{}, ""
	head := func(name string, value any) {
		text, _ := json.Marshal(value) // texts always encode
		fmt.Fprintf(out, "%q: %s", name, text)
	}
	out.WriteString("{\n")
	head("recipient", map[string]string{"channel": string(target.Channel), "to": target.To, "made_at": ad.Now().UTC().Format(time.RFC3339)})
	err = ad.Store.ExportPerson(ctx, target.Recipient, exportPageRows, func(t store.ExportedTable, rows []store.ExportedRow) error {
		if t.Name != table {
			if table != "" {
				out.WriteString("\n]}")
			}
			fmt.Fprintf(out, ",\n%q: {", t.Name)
			head("about", strings.ReplaceAll(t.About, "{retention}", ad.retentionText()))
			out.WriteString(", ")
			head("left_out", t.LeftOut)
			out.WriteString(", \"rows\": [")
		}
		for i, row := range rows {
			if i > 0 || t.Name == table {
				out.WriteByte(',')
			}
			out.WriteByte('\n')
			out.Write(row)
		}
		table, n = t.Name, n+len(rows)
		_, err := out.WriteTo(w)
		return err
	})
	if err != nil {
		return n, err
	}
	_, err = io.WriteString(w, "\n]}\n}\n")
	return n, err
}

func (ad *Administration) retentionText() string {
	keep := ad.Policy.Get().Retention
	if keep == 0 {
		return "ever"
	}
	return fmt.Sprint(int(keep.Hours()/24), " days")
}
