package sqlite

import (
	"strings"
	"testing"

	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

func TestSQLiteActsAreOnlyAdded(t *testing.T) {
	log := openSQLite(t, storetest.TempFile(t), &storetest.TestClock{At: storetest.Epoch})
	f := storetest.NewFixture(log).Clocked(storetest.Epoch, nil)
	a := f.Act()
	storetest.OK(t, f.AddAuditEntry(t.Context(), a))
	before := storetest.Show(f.ListActs(t, store.AuditFilter{}))
	replace := `REPLACE INTO acts SELECT id, at, 'other', role, network, what, app, channel, purpose, target, reason, outcome, detail, ends FROM acts`
	for _, statement := range append([]string{
		replace, `UPDATE OR REPLACE acts SET who = 'other'`, `INSERT OR REPLACE INTO act_people SELECT act, recipient, 'x' FROM act_people`,
	}, storetest.OnActs...) {
		statement = strings.ReplaceAll(statement, `decode(repeat('02', 16), 'hex')`, `x'02020202020202020202020202020202'`)
		if strings.Contains(statement, "ON CONFLICT") {
			statement = strings.Replace(statement, " ON CONFLICT", " WHERE true ON CONFLICT", 1) // else it is taken for a join
		}
		_, err := log.writer.Exec(statement)
		t.Logf("%s: %v", statement, err)
		storetest.Equal(t, "acts after "+statement, storetest.Show(f.ListActs(t, store.AuditFilter{})), before)
	}
	storetest.Must(log.writer.Exec(`UPDATE act_people SET masked = '•••', recipient = NULL`))(t)
	storetest.Equal(t, "masked", f.ListActs(t, store.AuditFilter{})[0].To, store.Erased)
}
