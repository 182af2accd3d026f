package verification_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/limit/admission"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

func overloaded(err error) bool {
	_, ok := errors.AsType[*admission.OverloadedError](err)
	return ok
}

// In an overload a send is refused before it is parsed, if its class is known without parsing, so
// the answer does not show a mistake in the request. A browser that names a verification or has
// tokens may be a known one.
func TestASendIsRefusedUnparsed(t *testing.T) {
	browser, stranger := vtest.By(vtest.Browser), vtest.By(vtest.ForStranger)
	known := func(a *verification.Request) { a.KnownTokens = []string{"a token"} }
	vtest.InBubble(t, func(r *vtest.Rig) {
		refused := func(o ...vtest.Option) bool { return overloaded(r.SendError(vtest.AskFor("no address", o...))) }
		r.Want("refused of none", []bool{refused(browser), refused(stranger), r.Svc.SendsOverloadError() != nil},
			[]bool{false, false, false})
		r.Svc.FillSends(admission.MaxUnderWay/2, true)
		r.Want("refused at strangers' half", []bool{
			refused(browser), refused(stranger), refused(), refused(browser, known),
			refused(browser, vtest.Resending("x")), overloaded(r.Svc.SendsOverloadError()),
		},
			[]bool{true, true, false, false, false, false})
		r.Want("the log tells", strings.Contains(r.Printed.String(), "requests refused at once: more than can be served in time"), true)
		r.Svc.FillSends(admission.MaxUnderWay/2, false)
		r.Want("refused of all", []bool{
			refused(browser), refused(stranger), refused(), overloaded(r.Svc.SendsOverloadError()),
			overloaded(r.Svc.ChecksOverloadError()),
		}, []bool{true, true, true, true, false})
		r.Svc.FillChecks(admission.MaxUnderWay, false)
		r.Want("refused of checks", overloaded(r.Svc.ChecksOverloadError()), true)
	})
}

// Requests that fail with the database are not decided, so they do not raise the number of requests
// that the process admits at once.
func TestUndecidedRequestsDoNotRaiseAdmission(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		slow := &delayedDatabase{Database: r.Store, begin: 4 * time.Second}
		p := r.ReplicaOn(slow, r.MailServer, r.Carrier)
		oldest := make(chan error, 1)
		go func() { _, err := p.Send(r.Context(), vtest.AskFor(vtest.Ana)); oldest <- err }()
		r.Sleep(time.Millisecond)
		slow.begin = 0
		r.FailStore(sqlitetest.Down, "Begin")
		for n := range 1000 {
			r.WantError(vtest.Err(p.Send(r.Context(), vtest.AskFor(vtest.NthAddress(n)))), fault.Unavailable)
			r.Sleep(time.Millisecond)
		}
		r.Want("most at once", p.AdmissionStats()["sends"].Limit, admission.MaxUnderWay/2)
		r.WantError(<-oldest, fault.Unavailable)
	})
}
