package verification

import (
	"context"

	"sendcode/internal/limit/admission"
	"sendcode/internal/store"
)

// The names of the two admissions in metrics and log lines.
const (
	sendsAdmissionName  = "sends"
	checksAdmissionName = "checks"
)

// AdmissionStats returns how full the two admissions are, by name: sends and checks.
func (s *Service) AdmissionStats() map[string]admission.Stats {
	return map[string]admission.Stats{sendsAdmissionName: s.sends.Stats(), checksAdmissionName: s.checks.Stats()}
}

// enterAdmission lets a request of a class enter the admission a, whose name is what. It counts a
// refusal for the log. Error: *admission.OverloadedError.
func (s *Service) enterAdmission(a *admission.Admission, what string, class store.Class) (leave func(decided bool), err error) {
	leave, err = a.Enter(class.IsStranger())
	return leave, s.countOverload(what, err)
}

// countOverload returns err and, unless err is nil, counts a refusal for the log lines about
// overload. what names the admission that refused.
func (s *Service) countOverload(what string, err error) error {
	if err != nil {
		s.overload.count(what)
		s.LogAlarms(context.Background())
	}
	return err
}

// SendsOverloadError returns the *admission.OverloadedError with which Send would refuse any
// request now, and counts it as a refusal; nil: Send would not. Callers use it before they read a
// request, because reading costs more than refusing.
func (s *Service) SendsOverloadError() error {
	return s.countOverload(sendsAdmissionName, s.sends.RefuseIfFull(admission.ClassUnread))
}

// ChecksOverloadError is SendsOverloadError for Check and CheckByRecipient.
func (s *Service) ChecksOverloadError() error {
	return s.countOverload(checksAdmissionName, s.checks.RefuseIfFull(admission.ClassUnread))
}

// refuseIfOverloaded returns the *admission.OverloadedError with which Send would refuse a request
// of its class, or nil. It also returns nil if the class is not known yet, since the browser may be
// a known one.
func (s *Service) refuseIfOverloaded(ask Request) error {
	if ask.Kind == Browser && (ask.Resend != "" || len(ask.KnownTokens) > 0) {
		return nil
	}
	return s.countOverload(sendsAdmissionName, s.sends.RefuseIfFull(admission.ClassOf(ask.Caller.classWithoutTokens().IsStranger())))
}
