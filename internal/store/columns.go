package store

// Column is the column of one field of a stored row. The statements of both databases, the erasure,
// and the repair of the texts of refusals follow from the columns.
type Column struct {
	Name string
	// Field is the field's address: *string, *int, *bool, *[]byte, *[32]byte, *[]string,
	// *time.Time, *time.Duration, *uuid.UUID or *recipient.Hash.
	Field any
	Use   Use
}

// Use says what is done with a column.
type Use int

// The uses. A column that an INSERT does not write gets its default.
const (
	InSend    Use = 1 << iota // Begin writes it
	InRefusal                 // Refused writes it, in the table refusals
	InProof                   // Prove writes it, beside those of InSend
	Added                     // the INSERTs of other tables write it
	Null                      // the zero value is NULL
	WriteOnly                 // it is not read: an index needs it
	Personal                  // an erasure empties it
)
