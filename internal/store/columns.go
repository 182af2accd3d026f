package store

// Column is the column of one field of a stored row. The statements of both databases, the erasure,
// and the repair of the texts of refusals follow from the columns.
type Column struct {
	Name string
	// Field is the field's address: *string, *int, *bool, *[]byte, *[32]byte, *[]string,
	// *time.Time, *time.Duration, *uuid.UUID or *recipient.Hash.
	Field any
	Flags ColumnFlags
}

// ColumnFlags says what is done with a column.
type ColumnFlags int

// The uses. A column that an INSERT does not write gets its default.
const (
	InsertedByBegin   ColumnFlags = 1 << iota // Begin writes it
	InsertedByRefusal                         // Refused writes it, in the table refusals
	InsertedByProve                           // Prove writes it, beside those of InsertedByBegin
	InsertedColumn                            // the INSERTs of other tables write it
	NullableColumn                            // the zero value is NULL
	WriteOnlyColumn                           // it is not read: an index needs it
	PersonalColumn                            // an erasure empties it
)
