package verification

// Exported for the tests of the use cases.
const (
	ClaimLease        = claimLease
	LockoutRemembered = lockoutRemembered
)

// Lines is how many recipients have a line.
func (s *Service) Lines() int { return s.recipients.Len() }
