package storetest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// exported returns the rows of a person's export, by table, read two at a time.
func (f *Fixture) exported(t *testing.T, n int) (rows map[string][]map[string]any, text string) {
	t.Helper()
	rows = map[string][]map[string]any{}
	OK(t, f.ExportPerson(t.Context(), recipient.Hash{15: byte(n)}, 2, func(of store.ExportedTable, page []store.ExportedRow) error {
		if len(page) > 2 || of.About == "" {
			t.Errorf("%s: %q, %d rows at once", of.Name, of.About, len(page))
		}
		for _, one := range page {
			var row map[string]any
			OK(t, json.Unmarshal(one, &row))
			rows[of.Name], text = append(rows[of.Name], row), text+string(one)
		}
		return nil
	}))
	return rows, text
}

// exportsAPerson checks that a person's export has every row that names the person once, but no
// code, no secret, no words of staff and no network of other persons. The network where a code was
// entered is the person's.
func exportsAPerson(t *testing.T, f *Fixture) {
	WriteTraces(t, f, 77)
	f.Admit(t, f.Intent(3))
	rows, text := f.exported(t, 77)
	for table, want := range map[string]int{
		"sends": 5, "verifications": 5, "refusals": 1, "suppressions": 1, "audit_entries": 1,
		"audit_recipients": 1, "carrier_holds": 1, "erasures": 0,
	} {
		Equal(t, table, len(rows[table]), want)
	}
	ids := map[any]bool{}
	for _, row := range rows["sends"] {
		ids[row["id"]] = true
	}
	Equal(t, "sends, each once", len(ids), 5)
	Equal(t, "what is given of what must go with an erasure", FoundIn([]byte(text)),
		[]string{"details", "domain", "locale", "masked", "prefix", "reference", "request", "the server's words"})
	Equal(t, "an instant", strings.HasSuffix(rows["sends"][0]["logged_at"].(string), "Z"), true)

	begun := f.Admit(t, f.Intent(78, func(in *store.Intent) { in.Send.Network = Traces["network"] }))
	f.Admit(t, f.Intent(78, func(in *store.Intent) { in.Send.Network = "203.0.113.0/24" }))
	f.approve(t, begun.Verification.ID)
	rows, _ = f.exported(t, 78)
	networks := []string{rows["sends"][0]["network"].(string), rows["sends"][1]["network"].(string)}
	slices.Sort(networks)
	Equal(t, "networks", networks, []string{"", Traces["network"]})
}
