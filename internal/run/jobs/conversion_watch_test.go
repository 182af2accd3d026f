package jobs_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/run/jobs"
	"sendcode/internal/store"
	"sendcode/internal/verify/humancheck"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

func nthNetwork(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 7}) }

// fromNetwork returns a request for a code to the recipient to, from a stranger's browser in the
// network with this number.
func fromNetwork(to string, network int, options ...vtest.Option) verification.Request {
	by := vtest.Browser
	by.IP = nthNetwork(network)
	return vtest.AskFor(to, append([]vtest.Option{vtest.By(by)}, options...)...)
}

// signInPeople requests a code as a person does, solves the human check if one is required, and
// enters the code. It returns whether a check was required.
func enter(r *vtest.Rig, request verification.Request) (asked bool) {
	r.Helper()
	a, err := r.Svc.Send(r.Context(), request)
	r.NoError(err)
	if a.HumanCheck != nil {
		asked, request.HumanCheck = true, vtest.Solve(r, a.HumanCheck)
		a, err = r.Svc.Send(r.Context(), request)
		r.NoError(err)
	}
	if !a.Admitted {
		r.Fatalf("%s was refused by %v", request.To, a.Quota.Violated())
	}
	r.Sleep(time.Second)
	r.WantApproved(a.View.ID, r.LastCode())
	return asked
}

// botRecipients and launchSignIns are how many codes the bot and the people of the launch request
// before the watch judges them. In the nightly tests they request many more.
const botRecipients, launchSignIns = 1500, 1500

// A bot requests codes for many recipients from many networks, stays below the rules on networks,
// and enters none. The watch logs this, and then requires a human check of strangers' browsers,
// which the bot doesn't solve. Strangers who enter their codes get them before, and after solving a
// check. No check is required of a back end whose app has none, of a known person, or of another
// app. An hour after the bot's last request, no check is required any more.
func TestConversionWatchAsksABot(t *testing.T) {
	testBot(t, botRecipients)
}

func testBot(t *testing.T, recipients int) {
	tick := func(s *vtest.Settings) {
		s.Subscriptions = map[string][]string{"shop": {store.ConversionLow, store.ConversionRecovered}}
		s.Tick = 10 * time.Second
	}
	vtest.InBubbleWith(t, tick, func(r *vtest.Rig) {
		const networks, people = 400, 20

		mails, refused := 0, 0
		sendAsBot := func(n int) {
			a, err := r.Svc.Send(r.Context(), fromNetwork(fmt.Sprintf("bot-%d@example.net", n), n%networks))
			r.NoError(err)
			if a.HumanCheck == nil && !a.Admitted {
				r.Fatalf("the bot was refused by %v", a.Quota.Violated())
			}
			if a.Admitted {
				mails++
			} else {
				refused++
			}
			if n%100 == 0 {
				r.MailServer.Forget()
			}
		}
		person := 0
		signInPeople := func(want bool) {
			r.Helper()
			for range people {
				person++
				if asked := enter(r, fromNetwork(vtest.NthAddress(person), 1000+person)); asked != want {
					r.Errorf("person %d was asked: %v", person, asked)
				}
			}
		}
		signInPeople(false)
		for n := range recipients { // 12 to 20 minutes in the bubble's time
			sendAsBot(n)
			if n%(recipients/1200+1) == 0 {
				r.Sleep(time.Second)
			}
		}
		r.Sleep(11*time.Minute + 2*jobs.PrefixWatchEvery)
		log := r.Printed.String()
		r.Want("lines", strings.Count(log, "few codes of strangers are entered"), 1)
		r.Want("of the app", strings.Contains(log, "app=shop sends="), true)
		before := mails
		for n := range recipients / 10 {
			sendAsBot(recipients + n)
		}
		vtest.Equal(r, "the bot's mails", mails, before)
		vtest.Equal(r, "those that need a check", refused >= recipients/10, true)
		signInPeople(true)
		stranger := vtest.ForStranger
		stranger.IP = nthNetwork(3)
		r.Want("a back end without a check", r.Send(vtest.AskFor("back@example.com", vtest.By(stranger))).Admitted, true)
		r.Want("a known person", r.SendTo("known@example.com").Admitted, true)
		other := fromNetwork("gym@example.com", 7)
		other.App = "gym"
		r.Want("another app", r.Send(other).Admitted, true)

		r.Svc.Codes.SetHumanChecks(map[string]humancheck.Check{"shop": {Cost: 8}})
		a, err := r.Svc.Send(r.Context(), vtest.AskFor("back-2@example.com", vtest.By(stranger)))
		r.NoError(err)
		r.Want("a back end with a check is asked", a.HumanCheck != nil, true)
		r.Svc.Codes.SetHumanChecks(nil)

		r.Sleep(time.Hour + 2*jobs.PrefixWatchEvery)
		signInPeople(false)
		r.Want("ended", strings.Count(r.Printed.String(), "codes of strangers are entered again"), 1)
		low, err := r.Store.LowConversions(r.Context())
		r.NoError(err)
		r.Want("periods", len(low), 0)
		var eventTypes []string
		events, err := r.Store.AppEvents(r.Context(), store.AppEventFilter{Limit: 200})
		r.NoError(err)
		for _, e := range slices.Backward(events) {
			eventTypes = append(eventTypes, e.App+" "+e.Type)
		}
		r.Want("events", eventTypes, []string{"shop conversion.low", "shop conversion.recovered"})
	})
}

// A launch after which 60 % enter their code causes no human check. Fewer than 1,000 sends cause
// none either, even if no code is entered.
func TestConversionWatchAsksNoLaunch(t *testing.T) {
	testLaunch(t, launchSignIns)
}

func testLaunch(t *testing.T, people int) {
	for name, c := range map[string]struct{ sends, percent int }{"launch": {people, 60}, "few": {900, 0}} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, func(s *vtest.Settings) { s.Tick = 10 * time.Second }, func(r *vtest.Rig) {
				for n := range c.sends {
					a := r.Send(fromNetwork(vtest.NthAddress(n), n%60_000))
					if n%100 < c.percent {
						r.Sleep(time.Second / 20)
						r.WantApproved(a.View.ID, r.LastCode())
						r.MailServer.Forget()
					}
					if n%(c.sends/1200+1) == 0 {
						r.Sleep(time.Second)
					}
				}
				r.Sleep(11*time.Minute + 2*jobs.PrefixWatchEvery)
				a, err := r.Svc.Send(r.Context(), fromNetwork("after@example.com", 1))
				r.NoError(err)
				vtest.Equal(r, "admitted", a.Admitted, true)
				vtest.Equal(r, "lines", strings.Count(r.Printed.String(), "few codes of strangers"), 0)
			})
		})
	}
}
