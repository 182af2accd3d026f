package verification

// Exported for the tests of the use cases.
const (
	LockoutRemembered = lockoutRemembered
	MaxConcurrent     = maxConcurrent
)

// ClaimLease is how long a claimed key stays claimed.
var ClaimLease = claimLease()

// Queues is how many recipients have requests now.
func (s *Service) Queues() int {
	s.recipients.mu.Lock()
	defer s.recipients.mu.Unlock()
	return len(s.recipients.queues)
}

// FillSends takes so many places of sends, for strangers or others.
func (s *Service) FillSends(n int, strangers bool) { fill(s.sends, n, strangers) }

// FillChecks is FillSends for checks.
func (s *Service) FillChecks(n int, strangers bool) { fill(s.checks, n, strangers) }

func fill(a *admission, n int, strangers bool) {
	for range n {
		if _, err := a.enter(strangers); err != nil {
			panic(err)
		}
	}
}

// Places of an admission.
const Places = mostUnderWay
