package store

// Column is the database column of one field of a row. Package sqlgen makes statements from
// columns.
type Column struct {
	Name string
	// Field is a pointer to the field: *string, *int, *bool, *[]byte, *[32]byte, *[]string,
	// *time.Time, *time.Duration, *uuid.UUID or *recipient.Hash. In a column that is only scanned,
	// Field may also be *[]Check.
	Field any
	Flags ColumnFlags
}

// ColumnFlags says how statements use a column.
type ColumnFlags int

// The flags. A column that an INSERT does not write gets its default.
const (
	InsertedByBegin   ColumnFlags = 1 << iota // Begin inserts it
	InsertedByRefusal                         // RecordRefusals inserts it in the table refusals
	InsertedColumn                            // an INSERT writes it, in a table that neither Begin nor RecordRefusals writes
	NullableColumn                            // the zero value is stored as NULL
	WriteOnlyColumn                           // only an index uses it; no statement reads it
	PersonalColumn                            // an erasure empties it
	ExportedColumn                            // the export of a person's data has it; sqldb/export.go says why others are left out
)
