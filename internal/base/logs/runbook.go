package logs

import "log/slog"

// These are values of the attribute "see" in warnings and errors: the section of docs/runbooks.md
// that says how to solve the problem. A test compares them with the document.
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

func see(section string) slog.Attr { return slog.String("see", "docs/runbooks.md#"+section) }
