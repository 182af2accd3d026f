package webhook

// What tests of a deliverer in a service need.
const (
	AttemptTimeout = attemptTimeout
	Keep           = keep
	Lease          = lease
	Life           = life
	MaxShare       = maxShare
	StopWait       = stopWait
	Sweep          = sweep
	SweepLimit     = sweepLimit
	Tick           = tick
)

var (
	Backoff   = (*Deliverer).backoff
	DeleteOld = (*Deliverer).deleteOld
)
