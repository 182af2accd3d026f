package verification

import (
	"context"

	"sendcode/internal/admission"
	"sendcode/internal/store"
)

// The names of both admissions in metrics and log lines.
const (
	ofSends  = "sends"
	ofChecks = "checks"
)

// Admissions returns how full both admissions are, by name: sends and checks.
func (s *Service) Admissions() map[string]admission.State {
	return map[string]admission.State{ofSends: s.sends.State(), ofChecks: s.checks.State()}
}

// enter admits a request of a class, or returns what countOverload has counted.
func (s *Service) enter(a *admission.Admission, what string, class store.Class) (leave func(decided bool), err error) {
	leave, err = a.Enter(class.IsStranger())
	return leave, s.countOverload(what, err)
}

// countOverload counts a refusal for the log lines of an overload, if err is one, and returns err.
func (s *Service) countOverload(what string, err error) error {
	if err != nil {
		s.overload.count(what)
		s.LogAlarms(context.Background())
	}
	return err
}

// SendsOverloaded returns the *admission.OverloadedError with which Send would refuse any request
// now; nil: it would not. It is for callers that have not read the request yet: to read one costs
// more than to refuse it.
func (s *Service) SendsOverloaded() error {
	return s.countOverload(ofSends, s.sends.RefuseIfFull(admission.ClassUnread))
}

// ChecksOverloaded is SendsOverloaded for Check and CheckNamed.
func (s *Service) ChecksOverloaded() error {
	return s.countOverload(ofChecks, s.checks.RefuseIfFull(admission.ClassUnread))
}

// refuseUnparsed returns the *admission.OverloadedError with which Send would refuse a request of
// its class. nil also if the class is not known yet, since a browser may be a known one.
func (s *Service) refuseUnparsed(ask Ask) error {
	if ask.Kind == Browser && (ask.Resend != "" || len(ask.Known) > 0) {
		return nil
	}
	return s.countOverload(ofSends, s.sends.RefuseIfFull(admission.ClassOf(ask.Caller.class().IsStranger())))
}
