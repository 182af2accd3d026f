package webhook

// Tests of a deliverer in a whole service need these constants.
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
