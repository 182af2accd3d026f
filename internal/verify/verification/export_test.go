package verification

// LockoutRemembered is how long a process remembers a lockout without reading it again.
const LockoutRemembered = lockoutFreshFor

// Queues returns the number of recipients that have requests now.
func (s *Service) Queues() int { return s.recipients.RecipientCount() }

// FillSends takes n places of sends, either strangers' or those of other callers.
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
