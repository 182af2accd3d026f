package logs

import "log/slog"

// These are the values of the attribute "see" in warnings and errors. Each value links to the
// section of docs/runbooks.md that says how to solve the problem. A test compares the values with
// the document.
var (
	SeeDatabaseAway  = see("database-away")
	SeeDatabaseSlow  = see("database-slow")
	SeeClock         = see("clock")
	SeeKeys          = see("keys")
	SeeRedis         = see("redis")
	SeeSendsWait     = see("sends-wait")
	SeeSendsFail     = see("sends-fail")
	SeeBursts        = see("bursts")
	SeeAttack        = see("attack")
	SeeConnections   = see("connections")
	SeeTextMessages  = see("text-messages")
	SeeDatabaseSpace = see("room")
	SeeJobs          = see("jobs")
	SeeConfiguration = see("configuration")
	SeeEvents        = see("events")
	SeeConsole       = see("console")
	SeeHumanChecks   = see("human-checks")
	SeeDefect        = see("defect")
)

// see returns the attribute for the anchor of a section.
func see(section string) slog.Attr { return slog.String("see", "docs/runbooks.md#"+section) }
