package verification

import (
	"errors"

	"sendcode/internal/store"
	"sendcode/quota"
)

// Reasons for which a request is turned away before any rule is asked, since codes are not sent to its recipient.
const (
	CountryNotServed = "country_not_served"
	VoIP             = "voip"
	Disposable       = "disposable"
)

// Unserved reports whether a row was turned away for such a reason. A rule of the same name refuses with a wait.
func Unserved(row store.Send) bool {
	switch row.BlockedBy {
	case CountryNotServed, VoIP, Disposable:
		return row.RetryAfter == 0
	}
	return false
}

// turnedAway records a request that is answered with the error: the administrator finds why its recipient got nothing. It costs
// the caller nothing, so it shares rows as what a rule of a wider scope refuses.
func (s *Service) turnedAway(a asked, err error) {
	var bad *InvalidError
	if !errors.As(err, &bad) {
		return
	}
	row := a.row()
	row.Status, row.BlockedBy, row.Count = store.Refused, bad.Reason, 1
	row.Reference = ""
	s.refusals.add(row, quota.Global, s.Now())
	s.Observer.Decided(a.to.Channel(), a.App, "refused", bad.Reason)
}
