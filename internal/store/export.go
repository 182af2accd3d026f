package store

import "encoding/json"

// ExportedTable is a table of a person's data export (GDPR, article 15). Its texts are for this
// person.
type ExportedTable struct {
	Name  string
	About string // what a row is, and how long it is kept; {retention} stands for the configured time
	// by column that is not exported: the reason
	LeftOut map[string]string
}

type ExportedRow = json.RawMessage
