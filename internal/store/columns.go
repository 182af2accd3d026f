package store

// Column is the database column of a field. Package sqlgen makes statements from columns.
type Column struct {
	Name string
	// Field points to a string, int, bool, []byte, [32]byte, []string, time.Time, time.Duration,
	// uuid.UUID or recipient.Hash or, if the column is only scanned, to a []Check.
	Field any
	Flags ColumnFlags
}

type ColumnFlags int

// The flags say how statements use a column. A column that an INSERT doesn't write gets its
// default.
const (
	InsertedByBegin   ColumnFlags = 1 << iota // Begin inserts it
	InsertedByRefusal                         // RecordRefusals inserts it in refusals
	InsertedColumn                            // an INSERT of any other table writes it
	NullableColumn                            // the zero value is stored as NULL
	WriteOnlyColumn                           // never read into the field; conditions and statistics use it
	PersonalColumn                            // an erasure empties it
	ExportedColumn                            // the export of a person's data has it; sqldb/export.go says why others are left out
)
