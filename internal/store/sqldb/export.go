package sqldb

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

// exportTable describes which columns of a table t are in a person's export.
type exportTable struct {
	about   string         // see store.ExportedTable; without columns, why the table is left out
	where   string         // the WHERE clause that selects the rows of @recipient, after the JOIN that it needs, if any
	key     []store.Column // the key of a row, with the alias of its table; in the order of the recipient's index, if there is one
	columns []store.Column
	readAs  map[string]string // SQL that is read in place of a column
	leftOut map[string]string // columns by reason
}

// exported returns those columns of row that are in the export, followed by the columns more.
func exported(row []store.Column, more ...store.Column) []store.Column {
	return append(slices.DeleteFunc(row, func(c store.Column) bool { return c.Flags&store.ExportedColumn == 0 }), more...)
}

// texts returns columns of texts or IDs.
func texts(names ...string) []store.Column {
	return sqlgen.MapSlice(names, func(name string) store.Column { return store.Column{Name: name, Field: new(string)} })
}

func instants(names ...string) []store.Column {
	return sqlgen.MapSlice(names, func(name string) store.Column { return store.Column{Name: name, Field: new(time.Time)} })
}

// refusalTableColumns returns the columns of refusals without the network.
func refusalTableColumns() []store.Column {
	return slices.DeleteFunc(new(store.SendOrRefusal).Columns(), func(c store.Column) bool {
		return c.Flags&store.InsertedByRefusal == 0 || c.Name == "network"
	})
}

const (
	holderReason  = "with this ID a code can be requested again or canceled"
	hashReason    = "the keyed hash by which the rows are found"
	othersReason  = "it may be of another person, who typed this address"
	keyReason     = "a secret, or of use only to this service"
	staffReason   = "names a member of staff; the role is in audit_entries"
	wordsReason   = "words of staff, which may name others; read them in the console"
	stateReason   = "work under way, for minutes; the row in sends says the same"
	noPerson      = "names no person"
	ofStaff       = "of administrators"
	byApprovedSQL = `CASE WHEN (SELECT v.approved_at FROM verifications v WHERE v.id = t.verification_id) IS NOT NULL THEN t.network ELSE '' END`
)

// onlyOwnVerificationsSQL limits an export from SQLite, which has no index of verifications by
// recipient. It selects the verifications of the recipient's sends, and the verifications that
// expired before @outlived, because their sends may be deleted. It isn't used in Postgres, where
// each page would read all IDs again.
const onlyOwnVerificationsSQL = ` AND t.id IN (SELECT s.verification_id FROM sends s WHERE s.recipient = @recipient
UNION ALL SELECT o.id FROM verifications o WHERE o.expires_at < @outlived AND o.recipient = @recipient)`

// exportTables has every table of the database. TestEveryColumnIsNamed fails if a table or a column
// is missing.
var exportTables = map[string]exportTable{
	"sends": {
		about: "Each message to you that was requested, and what became of it; kept for {retention}. The network of the browser is given where its code was entered: otherwise another person may have typed your address.",
		where: `WHERE t.recipient = @recipient`, key: append(instants("t.logged_at"), texts("t.id")...),
		columns: exported(new(store.Send).Columns(), texts("receipt")...),
		readAs:  map[string]string{"network": byApprovedSQL},
		leftOut: map[string]string{hashReason: "recipient", holderReason: "verification_id"},
	},
	"refusals": {
		about: "Each request for a message to you that a limit refused; kept for {retention}.",
		where: `WHERE t.recipient = @recipient`, key: append(instants("t.logged_at"), texts("t.id")...),
		columns: exported(refusalTableColumns()),
		leftOut: map[string]string{
			hashReason: "recipient", holderReason: "verification_id", othersReason: "network",
			"0 in a row that names you": "recipients",
		},
	},
	"verifications": {
		about: "Each code that was made for you, without the code, and whether it was entered; kept for {retention} after its end.",
		where: `WHERE t.recipient = @recipient`, key: append(instants("t.expires_at"), texts("t.id")...),
		columns: exported(new(store.Verification).Columns()),
		leftOut: map[string]string{
			hashReason: "recipient", holderReason: "id replaces", keyReason: "nonce key_id check_key holder redeemed_by",
			"your address, which you know, encrypted":                                                 "sealed",
			"times and networks of wrong codes, perhaps of another person; attempts has their number": "checks",
		},
	},
	"audit_entries": {
		about: "What members of staff did with your data; kept for ever. Your address in it goes when you are erased.",
		where: `JOIN audit_recipients r ON r.entry = t.id WHERE r.recipient = @recipient`, key: texts("t.id"),
		columns: exported(new(store.AuditEntry).Columns()),
		leftOut: map[string]string{staffReason: "actor network", wordsReason: "reason"},
	},
	"audit_recipients": {
		about: "To whom the rows of audit_entries were done; kept for ever, and your address until you are erased.",
		where: `WHERE t.recipient = @recipient`, key: texts("t.entry"), columns: texts("entry", "masked"),
		leftOut: map[string]string{hashReason: "recipient"},
	},
	"suppressions": {
		about: "Why messages to you are or were stopped, such as a complaint or a mailbox that does not exist; kept for {retention} after its end.",
		where: `WHERE t.recipient = @recipient`, key: texts("t.id"),
		columns: exported(new(store.Suppression).Columns(), instants("held_until")...),
		readAs:  map[string]string{"detail": `CASE WHEN t.reason = 'manual' THEN '' ELSE t.detail END`},
		leftOut: map[string]string{hashReason: "address recipient", staffReason: "created_by lifted_by", wordsReason: "lifted_why"},
	},
	"provider_events": {
		about: "What mail providers reported of messages to you, such as a bounce or a complaint; kept for {retention}.",
		where: `JOIN sends s ON s.id = t.send_id WHERE s.recipient = @recipient`, key: append(instants("s.logged_at"), texts("s.id", "t.kind")...),
		columns: exported(new(store.ProviderEvent).Columns()),
	},
	"carrier_holds": {
		about: "That a carrier takes no text messages to you for a time; kept until then.",
		where: `WHERE t.recipient = @recipient`, key: texts("t.channel"), columns: append(texts("channel"), instants("since", "until")...),
		leftOut: map[string]string{hashReason: "recipient"},
	},
	"erasures": {
		about: "That you were erased, until the keyed hash goes.",
		where: `WHERE t.recipient = @recipient`, key: instants("t.forget_at"), columns: instants("forget_at"),
		leftOut: map[string]string{hashReason: "recipient"},
	},
	"app_events":          {about: "events delivered to an app, for a week; the rows in sends and verifications say the same"},
	"failures":            {about: "the columns of sends again, of sends that failed"},
	"outbox":              {about: stateReason},
	"refunds":             {about: stateReason},
	"pending_receipts":    {about: stateReason},
	"idempotency_keys":    {about: "keyed hashes of requests, for a day"},
	"limiter_events":      {about: "encrypted names of limits, and instants"},
	"minute_index":        {about: noPerson},
	"spending":            {about: noPerson},
	"prefix_pauses":       {about: "of all numbers with a prefix"},
	"low_conversions":     {about: noPerson},
	"counted_hours":       {about: noPerson},
	"hour_tallies":        {about: noPerson},
	"hour_times":          {about: noPerson},
	"hour_domains":        {about: "counts of a whole mail domain"},
	"hour_codes":          {about: "counts of a whole country, domain or language"},
	"leases":              {about: noPerson},
	"write_probe":         {about: noPerson},
	"schema_fingerprints": {about: noPerson},
	"key_checks":          {about: noPerson},
	"sendcode_schema":     {about: noPerson},
	"accounts":            {about: ofStaff},
	"sessions":            {about: ofStaff},
	"second_factors":      {about: ofStaff},
}

func TableNames() []string { return slices.Sorted(maps.Keys(exportTables)) }

// reasons maps each column that is left out to the reason.
func (e exportTable) reasons() map[string]string {
	all := map[string]string{}
	for why, list := range e.leftOut {
		for name := range strings.FieldsSeq(list) {
			all[name] = why
		}
	}
	return all
}

// exportedColumn says how a column is read and added to JSON.
type exportedColumn struct {
	name, sql string
	new       func() (destination any, value func() any)
}

func (e exportTable) exported() []exportedColumn { return exportedColumns(e.columns, "t.", e.readAs) }

// keys returns the columns by which the export sorts the table.
func (e exportTable) keys() []exportedColumn { return exportedColumns(e.key, "", nil) }

func exportedColumns(columns []store.Column, alias string, readAs map[string]string) (all []exportedColumn) {
	for _, column := range columns {
		c := exportedColumn{name: column.Name, sql: cmp.Or(readAs[column.Name], alias+column.Name)}
		switch column.Field.(type) {
		case *int, *time.Duration:
			c.new = func() (any, func() any) { n := new(int64); return n, func() any { return *n } }
		case *bool:
			c.new = func() (any, func() any) { yes := new(bool); return yes, func() any { return *yes } }
		case *time.Time:
			c.new = func() (any, func() any) {
				at := new(time.Time)
				return sqlgen.ScannerFor(at), func() any { return sqlgen.NullIfZero(*at) }
			}
		default:
			c.sql = "coalesce(CAST(" + c.sql + " AS text), '')"
			c.new = func() (any, func() any) { text := new(string); return text, func() any { return *text } }
		}
		all = append(all, c)
	}
	return all
}

type exportedRow struct {
	key  []any
	json store.ExportedRow
}

// ExportPerson calls page with all rows that name the recipient, table by table, at most limit in
// one call, and once for a table without any. Rows have no code and name no other person;
// ExportedTable.LeftOut says what is missing. Errors: page's, fault.Unavailable.
func (db *DB) ExportPerson(ctx context.Context, h recipient.Hash, limit int,
	page func(store.ExportedTable, []store.ExportedRow) error,
) error {
	for _, name := range slices.Sorted(maps.Keys(exportTables)) {
		x := exportTables[name]
		if len(x.columns) == 0 {
			continue
		}
		t := store.ExportedTable{Name: name, About: x.about, LeftOut: x.reasons()}
		for after := []any(nil); ; {
			rows, err := db.exportPage(ctx, name, h, after, limit)
			if err != nil {
				return err
			}
			if err := page(t, sqlgen.MapSlice(rows, func(r exportedRow) store.ExportedRow { return r.json })); err != nil {
				return err
			}
			if len(rows) < limit {
				break
			}
			after = rows[limit-1].key
		}
	}
	return nil
}

// ExportPageSQL reads a table's first page, or the one after the row with the key @after0, @after1
// and so on.
func (d dialect) ExportPageSQL(table string, first bool) string {
	x := exportTables[table]
	if d == SQLite && table == "verifications" {
		x.where += onlyOwnVerificationsSQL
	}
	var list, key, after []string
	for i, c := range x.keys() {
		list, key, after = append(list, c.sql), append(key, c.name), append(after, fmt.Sprint("@after", i))
	}
	for _, c := range x.exported() {
		list = append(list, c.sql)
	}
	place, order := "", strings.Join(key, ", ")
	if !first {
		place = " AND (" + order + ") > (" + strings.Join(after, ", ") + ")"
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM " + table + " t " + x.where + place + " ORDER BY " + order + " LIMIT @limit"
}

// exportPage reads the page after a row's key, or the first if that's nil. Some tables have no
// index by recipient, so it may take longer than other reads.
func (db *DB) exportPage(ctx context.Context, name string, h recipient.Hash, after []any, limit int) ([]exportedRow, error) {
	ctx, cancel := context.WithTimeout(ctx, exportPageTimeout)
	defer cancel()
	args := Args{"recipient": h, "limit": limit}
	if db.Dialect == SQLite && name == "verifications" {
		oldest, err := ReadAll(ctx, db, "ExportPerson", func(at *time.Time) []any { return []any{sqlgen.ScannerFor(at)} },
			`SELECT s.logged_at FROM sends s ORDER BY s.logged_at LIMIT 1`, nil)
		if err != nil {
			return nil, err
		}
		args["outlived"] = time.Unix(1<<36, 0) // the year 4147: without sends, all verifications are read
		for _, at := range oldest {
			args["outlived"] = at.Add(store.MaxCodeLife + 2*store.MaxIDTimeDrift)
		}
	}
	for i, value := range after {
		args[fmt.Sprint("after", i)] = value
	}
	statement, all := db.Dialect.ExportPageSQL(name, after == nil), slices.Concat(exportTables[name].keys(), exportTables[name].exported())
	return readLong(ctx, db, "ExportPerson", func(q Tx) (rows []exportedRow, err error) {
		_, err = q.Run(statement, args, func(scan Scan) error {
			r, err := scanExported(scan, len(exportTables[name].keys()), all)
			rows = append(rows, r)
			return err
		})
		return rows, err
	})
}

const exportPageTimeout = 60 * time.Second

// scanExported reads a row whose first columns are the key.
func scanExported(scan Scan, keys int, all []exportedColumn) (r exportedRow, err error) {
	destinations, values := make([]any, len(all)), make([]func() any, len(all))
	for i, c := range all {
		destinations[i], values[i] = c.new()
	}
	if err := scan(destinations...); err != nil {
		return r, err
	}
	out := bytes.NewBufferString("{")
	for i, c := range all {
		if i < keys {
			r.key = append(r.key, values[i]())
			continue
		}
		value, err := json.Marshal(values[i]())
		if err != nil {
			return r, err
		}
		if i > keys {
			out.WriteByte(',')
		}
		out.WriteString(`"` + c.name + `":`)
		out.Write(value)
	}
	out.WriteByte('}')
	r.json = out.Bytes()
	return r, nil
}

// ExportedColumns returns, for each table, the columns in an export and those that the export names
// as left out. A table that is left out as a whole has no columns.
func ExportedColumns() map[string][]string {
	all := map[string][]string{}
	for name, x := range exportTables {
		all[name] = slices.Sorted(maps.Keys(x.reasons()))
		for _, c := range x.exported() {
			all[name] = append(all[name], c.name)
		}
	}
	return all
}
