package verification

// Exported for the tests of the use cases.
const LockoutRemembered = lockoutFreshFor

// Queues is how many recipients have requests now.
func (s *Service) Queues() int { return s.recipients.RecipientCount() }

// FillSends takes n places of sends, for strangers or for other callers.
func (s *Service) FillSends(n int, strangers bool) { fill(s.sendService.places, n, strangers) }

// FillChecks is FillSends for checks.
func (s *Service) FillChecks(n int, strangers bool) { fill(s.checkService.places, n, strangers) }

func fill(e entrance, n int, strangers bool) {
	for range n {
		if _, err := e.Enter(strangers); err != nil {
			panic(err)
		}
	}
}
