package rig

import "sendcode/internal/support"

// fourAndOne sends to one recipient at 0, 1, 2 and 3 minutes, the last for another purpose of the policy, and to another once.
func (r *Rig) FourAndOne() support.Policy {
	for n := range 4 {
		ask := AskFor(Ana)
		if n == 3 {
			ask.Purpose = "login"
		}
		r.Send(ask)
		if n == 0 {
			r.Send(AskFor("bob@example.com"))
		}
		Waited(Minute)
	}
	return r.Svc.Desk.Policies()[0]
}
