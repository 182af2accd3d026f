package verification

// LockoutRemembered is how long a process remembers a lockout without reading it again.
const LockoutRemembered = lockoutFreshFor

// Queues returns the number of recipients with requests under way or waiting for a slot.
func (s *Service) Queues() int { return s.recipients.RecipientCount() }

// FillSends takes n of the places that bound sends under way, for strangers or for other callers.
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
