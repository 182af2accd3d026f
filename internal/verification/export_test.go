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
