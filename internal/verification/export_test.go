package verification

// Exported for the tests of the use cases.
const LockoutRemembered = lockoutRemembered

// ClaimLease is how long a claimed key stays claimed.
var ClaimLease = claimLease()

// Lines is how many recipients have a line.
func (s *Service) Lines() int { return s.recipients.Len() }
