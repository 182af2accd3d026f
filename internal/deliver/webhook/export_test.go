package webhook

// What tests of a deliverer in a service need.
const (
	AttemptTimeout = attemptTimeout
	Keep           = keepEventsFor
	Lease          = leaseDuration
	Life           = retryFor
	MaxShare       = maxAttemptsPerApp
	StopWait       = maxStopWait
	Sweep          = sweepInterval
	SweepLimit     = sweepLimit
	Tick           = defaultTick
)

var (
	Backoff     = (*Deliverer).retryDelay
	SweepEvents = (*Deliverer).sweepEvents
)
