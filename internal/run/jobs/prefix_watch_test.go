package jobs_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/run/jobs"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

func watched(s *vtest.Settings) {
	vtest.ServeCountries("DE", "US")(s)
	s.Tick = 10 * time.Second
	s.Watch = store.PrefixWatch{MinSends: 20, MinApprovedPercent: 10, TTL: 10 * time.Minute}
}

// Many codes go to a prefix and none is entered. The prefix is paused, an alarm is logged, its
// messages are not sent, and their places are refunded. Other prefixes, other apps and mail are not
// paused. The pause ends after its time.
func TestPumpedPrefixIsPaused(t *testing.T) {
	vtest.InBubbleWith(t, watched, func(r *vtest.Rig) {
		r.Pump(0, 20)
		before := r.Send(vtest.TextTo(vtest.PumpedNumber(50))) // before the pause begins
		r.WantStatus(before, "sent")
		r.Sleep(10*time.Minute + 2*jobs.PrefixWatchEvery)
		alarm := regexp.MustCompile(`to prefix paused: .* prefix=\+49151 country=DE class=secret sends=21 approved=0`)
		vtest.Equal(r, "alarms", len(alarm.FindAllString(r.Printed.String(), -1)), 1)
		vtest.Equal(r, "alarms", r.Metrics.Take("paused shop DE"), 1)
		left := len(r.Carrier.Accepted())
		a := r.Send(vtest.TextTo(vtest.PumpedNumber(60)))
		vtest.Equal(r, "the send", r.Status(a), "failed paused")
		vtest.Equal(r, "messages", len(r.Carrier.Accepted()), left)
		d, err := r.Svc.Quota(r.Context(), vtest.BackEnd, "sms", vtest.PumpedNumber(60), "")
		r.NoError(err)
		r.Want("its places", vtest.Remaining(d.Quota), "[1 5 10]")
		r.WantStatus(r.Send(vtest.TextTo("+4916012345678")), "sent")
		r.WantStatus(r.SendTo(vtest.Ana), "sent")
		other := vtest.TextTo(vtest.PumpedNumber(61))
		other.App = "gym"
		r.Want("another app's", r.Send(other).View.Send.Status, "queued")
		r.Sleep(time.Hour)
		r.WantStatus(r.Send(vtest.TextTo(vtest.PumpedNumber(62))), "sent")
	})
}

// An app with its own settings is judged by these settings, and other apps by the settings of all
// apps.
func TestPrefixWatchUsesTheAppsSettings(t *testing.T) {
	for _, c := range []struct {
		own  store.PrefixWatch
		gym  bool // the app gym has settings of its own; the app shop has none
		want string
	}{
		{store.PrefixWatch{MinSends: 31, MinApprovedPercent: 10}, false, "sent"},
		{store.PrefixWatch{MinSends: 30, MinApprovedPercent: 10}, false, "failed paused"},
		{store.PrefixWatch{MinSends: 99, MinApprovedPercent: 10}, true, "failed paused"},
	} {
		vtest.InBubbleWith(t, vtest.MinuteTick(watched), func(r *vtest.Rig) {
			set, name := r.Settings.Set, "shop"
			if c.gym {
				name = "gym"
			}
			set.Apps = map[string]policy.App{"shop": {}, "gym": {}, name: {Watch: c.own}}
			r.Svc.Change(set) // as a reload of the settings does
			r.Pump(0, 30)
			r.Sleep(10*time.Minute + 2*jobs.PrefixWatchEvery)
			r.WantStatus(r.Send(vtest.TextTo(vtest.PumpedNumber(60))), c.want)
		})
	}
}

// The watch waits as long as codes live by the settings in force, even if they lived shorter at the
// start.
func TestPrefixWatchWaitsForCodesOfAReload(t *testing.T) {
	short := func(s *vtest.Settings) { watched(s); s.Watch.TTL = time.Minute }
	vtest.InBubbleWith(t, vtest.MinuteTick(short), func(r *vtest.Rig) {
		life := r.Settings.Set.Purposes["default"].Life(recipient.SMS)
		r.Pump(0, 30)
		r.Sleep(life - time.Minute)
		r.WantStatus(r.Send(vtest.TextTo(vtest.PumpedNumber(60))), "sent")
		r.Sleep(time.Minute + 2*jobs.PrefixWatchEvery)
		r.WantStatus(r.Send(vtest.TextTo(vtest.PumpedNumber(61))), "failed paused")
	})
}

// A pause also stops sends that wait for their next attempt.
func TestPrefixPauseStopsWaitingSends(t *testing.T) {
	vtest.InBubbleWith(t, watched, func(r *vtest.Rig) {
		r.Pump(0, 20)
		r.Sleep(8 * time.Minute)
		r.Carrier.Fail(&delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial, RetryAfter: 5 * time.Minute})
		a := r.Send(vtest.TextTo(vtest.PumpedNumber(60)))
		r.Carrier.Fail(nil)
		left := len(r.Carrier.Accepted())
		r.Sleep(6 * time.Minute)
		vtest.Equal(r, "the send", r.Status(a), "failed paused")
		vtest.Equal(r, "messages", len(r.Carrier.Accepted()), left)
	})
}

// While the database cannot say whether a prefix is paused, no text message is sent. After it
// answers, the waiting message is sent.
func TestNoTextMessagesWithoutPrefixPauses(t *testing.T) {
	vtest.InBubbleWith(t, watched, func(r *vtest.Rig) {
		r.FailStore(sqlitetest.Down, "PrefixPaused")
		a := r.Send(vtest.TextTo(vtest.Mobile))
		vtest.Equal(r, "the send", r.Status(a), "queued temporary_log")
		vtest.Equal(r, "messages", len(r.Carrier.Accepted()), 0)
		r.EndStoreFaults()
		r.Sleep(20 * time.Second)
		r.WantStatus(a, "sent")
	})
}

func TestPrefixWatchExemptsPrefixes(t *testing.T) {
	for name, change := range map[string]func(*vtest.Settings){
		"exempt": func(s *vtest.Settings) { s.Watch.Exempt = []string{"+49"} },
		"off":    func(s *vtest.Settings) { s.Watch = store.PrefixWatch{} },
	} {
		vtest.InBubbleWith(t, func(s *vtest.Settings) { watched(s); change(s) }, func(r *vtest.Rig) {
			r.Pump(0, 20)
			r.Sleep(15 * time.Minute)
			r.WantStatus(r.Send(vtest.TextTo(vtest.PumpedNumber(60))), "sent")
			got, _, _ := r.Store.PrefixPauses(r.Context(), store.PrefixPauseFilter{Limit: 9})
			r.Want(name, len(got), 0)
		})
	}
	// A prefix that is exempted during a pause is open at once. Without a watch all prefixes are
	// open at once.
	vtest.InBubbleWith(t, watched, func(r *vtest.Rig) {
		r.Pump(0, 20)
		r.Sleep(12 * time.Minute)
		for n, watch := range []store.PrefixWatch{{MinSends: 20, Exempt: []string{"+49151"}}, {}} {
			r.Svc.Outbox.Watch = watch
			r.WantStatus(r.Send(vtest.TextTo(vtest.PumpedNumber(60+n))), "sent")
		}
	})
}

// If strangers' codes cause a pause, it applies only to strangers: secret keys can still send. A
// stranger whose sends failed because of the pause may try again as soon as the pause is lifted.
func TestPrefixPauseOfStrangersAlone(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) { vtest.BoundFailures(s); watched(s) }, func(r *vtest.Rig) {
		byStranger := func(n int) verification.Request {
			a := vtest.TextTo(vtest.PumpedNumber(n))
			a.Trust = verification.ImpliedStranger
			return a
		}
		for n := range 20 {
			r.Send(byStranger(n))
		}
		r.Sleep(10*time.Minute + 2*jobs.PrefixWatchEvery)
		r.Want("alarm", strings.Contains(r.Printed.String(), "country=DE class=unknown sends=20"), true)
		for range policy.BackoffRule.Limit {
			r.WantStatus(r.Send(byStranger(60)), "failed paused")
		}
		r.Want("strangers", r.Refuse(byStranger(60)).Quota.Violated(), "[backoff]")
		for _, n := range []int{60, 61} {
			r.WantStatus(r.Send(vtest.TextTo(vtest.PumpedNumber(n))), "sent")
			r.WantStatus(r.Send(byStranger(61)), "failed paused")
		}
		list, _, err := r.Store.PrefixPauses(r.Context(), store.PrefixPauseFilter{Active: true, Limit: 9})
		vtest.Equal(r, "pauses", len(list), 1)
		vtest.Equal(r, "pauses: Class", list[0].Class, "unknown")
		r.NoError(err)

		for range policy.BackoffRule.Limit {
			r.WantStatus(r.Send(byStranger(62)), "failed paused")
		}
		r.Want("strangers", r.Refuse(byStranger(62)).Quota.Violated(), "[backoff]")
		_, err = r.Svc.Administration.LiftPrefixPause(r.Context(), list[0].ID, "ours, ticket 7", vtest.AuditEntry("prefix.lift"))
		r.NoError(err)
		r.Sleep(time.Second)
		r.WantStatus(r.Send(byStranger(62)), "sent")
	})
}
