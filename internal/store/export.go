package store

import "encoding/json"

// ExportedTable describes a table of a person's data export (GDPR, article 15). Its texts are
// written for this person.
type ExportedTable struct {
	Name  string
	About string // content of a row, and how long it is kept; {retention} is the retention of the settings
	// the reason why a column is not exported, by the column's name
	LeftOut map[string]string
}

// ExportedRow is a row of the export, an object in JSON.
type ExportedRow = json.RawMessage
