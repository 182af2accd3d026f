// Package runbook names the sections of docs/runbooks.md. The attribute "see" of each warning and
// error in the log refers to one.
package runbook

import "log/slog"

// Section is the anchor of a section of docs/runbooks.md.
type Section string

// The sections to which log lines lead. A test compares them with the document.
const (
	DatabaseAway  Section = "database-away"
	DatabaseSlow  Section = "database-slow"
	Clock         Section = "clock"
	Keys          Section = "keys"
	Redis         Section = "redis"
	SendsWait     Section = "sends-wait"
	SendsFail     Section = "sends-fail"
	Bursts        Section = "bursts"
	Attack        Section = "attack"
	Connections   Section = "connections"
	TextMessages  Section = "text-messages"
	DatabaseSpace Section = "room"
	Jobs          Section = "jobs"
	Configuration Section = "configuration"
	Events        Section = "events"
	Console       Section = "console"
	Defect        Section = "defect"
)

// See returns the attribute "see" for a log line.
func (s Section) See() slog.Attr { return slog.String("see", "docs/runbooks.md#"+string(s)) }
