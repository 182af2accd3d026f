package gates_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/codes/policy"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

var (
	secondAndHourRules = []quota.Rule{
		{Name: "second", Scope: quota.Recipient, Limit: 1, Window: time.Second},
		{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
	}
	secondAndHour = vtest.WithRules(secondAndHourRules...)
)

// watched is a replica that records its calls of the limiter, and of the database's Begin and
// ReadHistory.
type watched struct {
	*vtest.Service
	db    *sqlitetest.DB
	mu    sync.Mutex // guards calls, because a look calls both gates at once
	calls []string
}

func watch(r *vtest.Rig) *watched {
	w := &watched{db: r.Store.Replica()}
	w.db.SetFault(func(method string) sqlitetest.Fault {
		if slices.Contains([]string{"Begin", "ReadHistory"}, method) {
			w.note(method)
		}
		return sqlitetest.None
	})
	w.Service = r.ReplicaOn(w.db, r.MailServer, r.Carrier)
	w.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
		w.note(call)
		return do()
	})
	return w
}

func (w *watched) note(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call)
}

// during returns the calls that do makes. If both gates are called at once, the limiter's call is
// first.
func (w *watched) during(do func()) string {
	w.calls = nil
	do()
	return strings.Replace(strings.Join(w.calls, " "), "ReadHistory Peek", "Peek ReadHistory", 1)
}

// The test compares the calls of each kind of request. While nothing is lost, a request makes at
// most one call of each gate, and only an admitted send writes.
func TestCallsOfARequest(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		w := watch(r)
		id := ""
		send := func(admitted bool) func() {
			return func() {
				if a := r.AskAt(w.Service, vtest.AskFor(vtest.Ana), admitted); admitted {
					id = a.View.ID
				}
			}
		}
		look := func() { r.NoError(vtest.Err(w.Get(r.Context(), vtest.BackEnd, id))) }
		flush := func() { r.ReplaceLimiter() }
		abandon := func() { // the process dies between the gates
			ana, err := r.Svc.Administration.HashRecipient("email", vtest.Ana)
			r.NoError(err)
			r.NoError(vtest.Err(r.Limiter.Take(r.Context(), quota.Request{
				ID: "no row", Rules: secondAndHourRules,
				Buckets: vtest.BucketsOf(r.Svc.Policies().Purposes["default"], ana),
			})))
		}
		second := func() { r.Sleep(time.Second) }
		deliver := func() { r.Sleep(0) } // refusals can't reuse rows that have a send in flight
		const looked, added = "Peek ReadHistory", "Peek ReadHistory ReadHistory Record Peek"
		for i, step := range []struct {
			do   func()
			want string
		}{
			{send(true), "Take Begin"},
			{look, looked},
			{look, looked},
			{deliver, ""},
			{send(false), "Take ReadHistory"},
			{send(false), "Take"},
			{second, ""},
			{send(true), "Take Begin"},
			{flush, ""},
			{look, added},
			{look, looked},
			{second, ""},
			{flush, ""},
			{send(true), "Take Begin Record Peek"},
			{look, looked},
			{flush, ""},
			{send(false), "Take Refund Record Peek"},
			{send(false), "Take ReadHistory"},
			{second, ""},
			{send(true), "Take Begin"}, // the refused Begin has written nothing
			{second, ""},
			{abandon, ""},
			{look, looked},
			{second, ""},
			{send(false), "Take ReadHistory"}, // the hour is full
		} {
			r.Want(fmt.Sprint("calls of step ", i), w.during(step.do), step.want)
		}
		flush()
		abandon()
		r.Want("used of the hour: the rows', and that of the limiter alone", r.QuotaAt(w.Service).Rules[1].Used, 5)
	})
}

// interrupted is a database that calls beforeBegin before its first Begin, and then runs that Begin
// even if the caller has left.
type interrupted struct {
	*sqlitetest.DB
	beforeBegin func()
}

func (i *interrupted) Begin(ctx context.Context, in store.Intent) (store.BeginAnswer, error) {
	if do := i.beforeBegin; do != nil {
		i.beforeBegin = nil
		do()
	}
	return i.DB.Begin(context.WithoutCancel(ctx), in)
}

// A flush between the gates removes the events of a send. Reads restore the history that the
// limiter lacks.
func TestLooksAreTrueAfterAFlushBetweenTheGates(t *testing.T) {
	for _, earlier := range []int{0, 1} {
		vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
			for range earlier {
				r.SendTo(vtest.Ana)
				r.Sleep(time.Second)
			}
			s := r.ReplicaOn(&interrupted{DB: r.Store, beforeBegin: func() {
				r.ReplaceLimiter()
				r.QuotaAt(r.Svc)
				r.QuotaAt(r.Svc)
			}}, r.MailServer, r.Carrier)
			if a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || !a.Admitted {
				t.Fatalf("%v %+v", err, a)
			}
			left := fmt.Sprintf("[0 %d]", 4-earlier)
			r.WantQuota("just after the send", r.QuotaAt(r.Svc), left, time.Second)
			r.Sleep(time.Second / 2)
			r.WantQuota("half a second later", r.QuotaAt(r.Svc), left, time.Second/2)
			r.Sleep(10 * time.Second)
			r.WantQuota("when nothing is in doubt", r.QuotaAt(r.Svc), fmt.Sprintf("[1 %d]", 4-earlier), 0)
			r.WantCounted("at the end", 1+earlier)
		})
	}
}

// The database was slow and counts the send from a later instant than the limiter did, which may
// have lost it meanwhile. The wait is the database's.
func TestWaitIsTheDatabasesIfItWasSlow(t *testing.T) {
	for _, lost := range []bool{false, true} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			s := r.ReplicaOn(&interrupted{DB: r.Store, beforeBegin: func() {
				if r.Sleep(3 * time.Second); lost {
					r.ReplaceLimiter()
				}
			}}, r.MailServer, r.Carrier)
			a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana))
			r.NoError(err)
			wait := a.Quota.RetryAfter()
			r.WantWait(r.QuotaAt(r.Svc), wait)
			r.Sleep(wait)
			r.SendTo(vtest.Ana)
		})
	}
}

// The limiter's bucket is lost and rewritten while a process is frozen between the gates. The
// process does not add its send to the limiter, but the next look does.
func TestQuotaAddsTheSendOfAFrozenProcess(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(time.Second)
		s := r.ReplicaOn(&interrupted{DB: r.Store, beforeBegin: func() {
			r.ReplaceLimiter()
			r.QuotaAt(r.Svc)
			r.Sleep(10 * time.Second)
			r.QuotaAt(r.Svc)
		}}, r.MailServer, r.Carrier)
		if a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana)); err != nil || !a.Admitted {
			t.Fatalf("%v %+v", err, a)
		}
		r.WantCounted("after the send, whose rows were read too long ago", 1)
		r.WantQuota("a look", r.QuotaAt(r.Svc), "[0 3]", time.Second)
		r.WantCounted("after the look", 2)
	})
}

// If the limiter lost its events, a look or an admitted send adds them again and counts a loss. A
// refusal by the database counts none. A recipient that the limiter never had, or still has, is no
// loss.
func TestRebuildsAreCounted(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		var counts []int
		count := func() { counts = append(counts, r.Metrics.Take("rebuilt")) }
		for range 3 {
			r.QuotaAt(r.Svc)
			r.SendTo(vtest.Ana)
			r.Sleep(time.Second)
		}
		count()
		r.ReplaceLimiter()
		for range 2 {
			r.QuotaAt(r.Svc)
			count()
		}
		r.Sleep(time.Second)
		r.ReplaceLimiter()
		r.SendTo(vtest.Ana)
		count()
		r.Sleep(time.Second / 2)
		r.ReplaceLimiter()
		r.RefuseTo(vtest.Ana) // by the database
		count()
		servertest.Same(t, "rebuilds", fmt.Sprint(counts), "[0 1 0 1 0]")
	})
}

// A gate that is slow, or that did not answer, has lost nothing. So no rebuild is counted, since
// the alert means that the limiter loses events.
func TestSlowGateCountsNoRebuild(t *testing.T) {
	for name, slow := range map[string]func(r *vtest.Rig) *vtest.Service{
		"the limiter": func(r *vtest.Rig) *vtest.Service {
			r.Limiter.Intercept(func(_ context.Context, _ string, do func() error) error {
				r.Sleep(1200 * time.Millisecond)
				return do()
			})
			return r.Svc
		},
		"the database": func(r *vtest.Rig) *vtest.Service {
			return r.ReplicaOn(&interrupted{DB: r.Store, beforeBegin: func() { r.Sleep(3 * time.Second) }}, r.MailServer, r.Carrier)
		},
		// the database counts a send that the limiter lacks
		"the limiter, at times": func(r *vtest.Rig) *vtest.Service {
			failed := false
			r.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
				if call == "Record" || call == "Take" && !failed {
					failed = failed || call == "Take"
					return quota.ErrUnavailable
				}
				return do()
			})
			return r.Svc
		},
	} {
		vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
			s := slow(r)
			for range 3 {
				r.NoError(vtest.Err(s.Send(r.Context(), vtest.AskFor(vtest.Ana))))
				r.Sleep(2 * time.Second)
				r.QuotaAt(s)
			}
			servertest.Same(t, name+" is slow: losses", r.Metrics.Take("rebuilt"), 0)
		})
	}
}

// Two purposes have policies of their own. For five seconds, a mistake in the settings gives one
// purpose the policy of the other. Its sends count in the wrong policy during that time, and no
// longer. The same holds for a replica that still has the mistake in its file, at the cost of a
// query for each read.
func TestUndonePolicyLeavesNoCounts(t *testing.T) {
	hour := quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 3, Window: time.Hour}
	vtest.InBubbleWith(t, vtest.MinuteTick(vtest.WithRules(hour)), func(r *vtest.Rig) {
		mapped := func(s *vtest.Service, gift string, shares ...string) {
			terms := s.Policies()
			terms.Purposes = maps.Clone(terms.Purposes)
			p := terms.Purposes["default"]
			for name, policy := range map[string]string{"gift": gift, "login": "hrb"} {
				own := p
				own.Name, own.Policy.Name, own.PolicyPurposes = name, policy, []string{name}
				if policy == "hrb" {
					own.PolicyPurposes = shares
				}
				terms.Purposes[name] = own
			}
			s.Change(terms)
		}
		send := func(s *vtest.Service, purpose string) verification.Answer {
			a, err := s.Send(r.Context(), vtest.AskFor(vtest.Ana, vtest.For(purpose)))
			r.NoError(err)
			return a
		}
		look := func(s *vtest.Service, what, purpose, left string, wait time.Duration) {
			t.Helper()
			a, err := s.Quota(r.Context(), vtest.BackEnd, "email", vtest.Ana, purpose)
			r.NoError(err)
			r.WantQuota(what, a.Quota, left, wait)
		}
		other := r.Replica(r.MailServer)
		right := func(s *vtest.Service) { mapped(s, "hra", "login") }
		wrong := func(s *vtest.Service) { mapped(s, "hrb", "gift", "login") }
		right(r.Svc)
		send(r.Svc, "gift")
		send(r.Svc, "gift")
		send(r.Svc, "login")
		look(r.Svc, "at first", "login", "[2]", 0)
		r.Sleep(10 * time.Second)
		wrong(r.Svc)
		look(r.Svc, "with the mistake", "login", "[0]", time.Hour-10*time.Second)
		r.Sleep(5 * time.Second)
		right(r.Svc)
		look(r.Svc, "when it is undone", "login", "[2]", 0)
		look(r.Svc, "of the other purpose", "gift", "[1]", 0)

		wrong(other) // a replica that still has the old settings
		for range 2 {
			look(other, "where it is not undone", "login", "[0]", time.Hour-15*time.Second)
			look(r.Svc, "where it is", "login", "[2]", 0)
		}
		r.Sleep(time.Hour)
		look(r.Svc, "an hour later", "login", "[3]", 0)
		send(other, "gift") // the send counts in the bucket of hrb, where r.Svc does not expect it
		r.Sleep(10 * time.Second)
		for _, left := range []string{"[2]", "[1]", "[0]"} {
			if a := send(r.Svc, "login"); !a.Admitted || vtest.Remaining(a.Quota) != left {
				t.Errorf("after a send of the other replica: %+v", a.Quota)
			}
		}
		look(r.Svc, "a full hour", "login", "[0]", time.Hour)
	})
}

// A refusal without the limiter reads the database once.
func TestARefusalWithoutTheLimiterIsOneRead(t *testing.T) {
	vtest.InBubbleWith(t, vtest.AlsoRules(quota.Rule{Name: "net", Scope: quota.IP, Limit: 1, Window: time.Minute}), func(r *vtest.Rig) {
		r.LoseLimiter()
		w := watch(r)
		r.AskAt(w.Service, vtest.AskFor("bob@example.com"), true)
		r.Want("calls", w.during(func() { r.AskAt(w.Service, vtest.AskFor(vtest.Ana), false) }), "ReadHistory")
	})
}

// A refusal always has a wait, even if the limiter loses the events that correct the wait.
func TestRefusalHasPositiveWait(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
			if call == "Refund" || call == "Record" {
				return nil
			}
			return do()
		})
		r.MailServer.Answer(vtest.NoMailbox)
		r.SendTo(vtest.Ana)
		r.WantWait(r.RefuseTo(vtest.Ana).Quota, time.Minute)
	})
}

// lateLook is a database that delays a read.
type lateLook struct {
	*sqlitetest.DB
	late, after time.Duration // delays before the database reads its clock, and after it
	only        int32         // number of the look that is late; 0: all are
	looks       atomic.Int32  // number of looks so far
}

func (l *lateLook) ReadHistory(ctx context.Context, look rowrules.HistoryQuery) (rowrules.History, error) {
	if n := l.looks.Add(1); l.only > 0 && n != l.only {
		return l.DB.ReadHistory(ctx, look)
	}
	<-time.After(l.late)
	h, err := l.DB.ReadHistory(ctx, look)
	<-time.After(l.after)
	return h, err
}

// A read calls both gates at once, whichever answers first. The states are those of the instant at
// which both have answered, or of an instant that is earlier by a part of the longer call. Events
// that a read adds to the limiter count no longer than they should. Only the limiter counts the
// rule net: its wait is computed from the instant of the rows, at the earliest from the call.
func TestALookAsksBothGatesAtOnce(t *testing.T) {
	const late, part = 900 * time.Millisecond, 400 * time.Millisecond
	rules := append(slices.Clone(secondAndHourRules), quota.Rule{Name: "net", Scope: quota.IP, Limit: 1, Window: time.Minute})
	vtest.InBubbleWith(t, vtest.MinuteTick(vtest.WithRules(rules...)), func(r *vtest.Rig) {
		for name, c := range map[string]struct{ limiter, limiterAfter, rows, rowsAfter, wantWait, net time.Duration }{
			"the limiter is late":         {limiter: late, wantWait: time.Second - late, net: time.Minute - late},
			"its answer is late":          {limiterAfter: late, wantWait: time.Second - late, net: time.Minute},
			"the rows are late":           {rows: late, wantWait: time.Second - late, net: time.Minute},
			"their answer is late":        {rowsAfter: late, wantWait: time.Second, net: time.Minute},
			"the rows are read before":    {limiter: late, rowsAfter: late, wantWait: time.Second, net: time.Minute - late},
			"the limiter is asked before": {limiterAfter: late, rows: late, wantWait: time.Second - late, net: time.Minute},
			"the limiter is later":        {part, late - part, 0, part, time.Second - late + part, time.Minute - part},
		} {
			for _, lost := range []bool{false, true} {
				left := time.Second - late // the rest of the second, in the limiter
				r.Sleep(time.Hour)
				r.SendTo(vtest.Ana)
				if lost {
					r.ReplaceLimiter()
					c.wantWait, c.net, left = left, 0, max(0, left-c.limiterAfter) // the rows are read again
				}
				s := r.ReplicaOn(&lateLook{DB: r.Store, late: c.rows, after: c.rowsAfter, only: 1}, r.MailServer, r.Carrier)
				s.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
					s.Limiter.Intercept(nil)
					r.Sleep(c.limiter)
					defer r.Sleep(c.limiterAfter)
					return do()
				})
				began := time.Now()
				d := r.QuotaAt(s)
				vtest.Equal(r, name+": second, used of the hour, net, it took: RetryAfter", d.Rules[0].RetryAfter, c.wantWait)
				vtest.Equal(r, name+": second, used of the hour, net, it took: Used", d.Rules[1].Used, 1)
				vtest.Equal(r, name+": second, used of the hour, net, it took: RetryAfter", d.Rules[2].RetryAfter, c.net)
				vtest.Equal(r, name+": second, used of the hour, net, it took", time.Since(began), late)
				if counted := r.Counted(); counted.Rules[1].Used != 1 || counted.Rules[0].RetryAfter != left {
					t.Errorf("%s: the limiter counts %+v", name, counted)
				}
			}
		}
	})
}

// If a send failed after a look read the rows, the look does not add the send to the limiter, even
// if the limiter lost the refund before it answered.
func TestALookAddsNoRefundedSend(t *testing.T) {
	vtest.InBubbleWith(t, secondAndHour, func(r *vtest.Rig) {
		r.MailServer.Answer(func(ctx context.Context) error {
			r.Sleep(time.Second)
			return vtest.NoMailbox(ctx)
		})
		r.NoError(vtest.Err(r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana))))
		s := r.ReplicaOn(r.Store, r.MailServer, r.Carrier)
		s.Limiter.Intercept(func(_ context.Context, _ string, do func() error) error {
			s.Limiter.Intercept(nil)
			r.Sleep(2 * time.Second) // in this time the rows are read, and then the send fails
			r.ReplaceLimiter()
			return do()
		})
		vtest.Equal(r, "used of the hour: told", r.QuotaAt(s).Rules[1].Used, 0)
		vtest.Equal(r, "used of the hour: counted", r.Counted().Rules[1].Used, 0)
	})
}

// The instant of a look is in whole microseconds, as the ends of windows are, even if the gates
// answer between two microseconds.
func TestALookIsAtAWholeMicrosecond(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Limiter.Intercept(func(_ context.Context, _ string, do func() error) error {
			r.Sleep(1500 * time.Nanosecond)
			return do()
		})
		r.Want("nanoseconds", r.QuotaAt(r.Svc).At.Nanosecond()%1000, 0)
	})
}

// A browser gets the exact wait that its own sends cause, however slow the database's answer is.
func TestASlowLookTellsOwnSends(t *testing.T) {
	vtest.InBubbleWith(t, vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 2, Window: time.Hour}), func(r *vtest.Rig) {
		r.Sleep(17 * time.Second)
		first := r.SendTo(vtest.Ana, vtest.By(vtest.Browser))
		r.Sleep(9 * time.Minute)
		s := r.ReplicaOn(&lateLook{DB: r.Store, late: 3 * time.Second}, r.MailServer, r.Carrier)
		a := r.AskAt(s, vtest.AskFor(vtest.Ana, vtest.By(vtest.Browser), vtest.Resending(first.View.ID)), true)
		r.WantWait(a.Quota, time.Hour-9*time.Minute)
	})
}

// silentLook is a database that never answers a look.
type silentLook struct{ *sqlitetest.DB }

func (silentLook) ReadHistory(ctx context.Context, _ rowrules.HistoryQuery) (rowrules.History, error) {
	ctx, cancel := store.WithCallTimeout(ctx)
	defer cancel()
	<-ctx.Done()
	return rowrules.History{}, fault.Unavailable
}

// A refusal waits for the database no longer than any call does.
func TestARefusalWaitsForASilentDatabase(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		began := time.Now()
		_, err := r.ReplicaOn(silentLook{r.Store}, r.MailServer, r.Carrier).Send(r.Context(), vtest.AskFor(vtest.Ana))
		r.WantError(err, fault.Unavailable)
		r.Want("it took", time.Since(began), store.CallTimeout)
	})
}

var hourlyFailures = quota.Rule{Name: "failures", Scope: policy.FailuresScope, Limit: 9, Window: time.Hour}

// Refusals that wait for a read share the next read if they need the same rows, and if either all
// or none of their callers are strangers.
func TestRefusalsThatShareARead(t *testing.T) {
	purposes := func(s *vtest.Settings) {
		like := s.Purposes["default"]
		add := func(name string, shares []string, rules ...quota.Rule) {
			p := like
			p.Name, p.PolicyPurposes, p.Policy.Rules = name, shares, append(slices.Clone(like.Policy.Rules), rules...)
			s.Purposes[name] = p
		}
		add("default", like.PolicyPurposes, hourlyFailures)
		add("bare", like.PolicyPurposes)
		add("longer", like.PolicyPurposes, hourlyFailures,
			quota.Rule{Name: "week", Scope: quota.Recipient, Limit: 99, Window: 7 * 24 * time.Hour})
	}
	for name, c := range map[string]struct {
		other vtest.Option
		reads int
	}{
		"the same":       {vtest.For("default"), 1},
		"another window": {vtest.For("longer"), 2},
		"no failures":    {vtest.For("bare"), 2},
		"a stranger":     {vtest.By(vtest.Browser), 2},
	} {
		vtest.InBubbleWith(t, purposes, func(r *vtest.Rig) {
			r.SendTo(vtest.Ana)
			db := &lateLook{DB: r.Store, late: 100 * time.Millisecond}
			s := r.ReplicaOn(db, r.MailServer, r.Carrier)
			var refused sync.WaitGroup
			for _, option := range []vtest.Option{vtest.For("default"), vtest.For("default"), c.other} {
				refused.Go(func() { r.NoError(vtest.Err(s.Send(r.Context(), vtest.AskFor(vtest.Ana, option)))) })
				r.Sleep(time.Millisecond)
			}
			refused.Wait()
			r.Want(name+": reads", db.looks.Load(), c.reads)
		})
	}
}

// A refusal counts every send that was answered before the refusal began. This holds even if the
// limiter lost the send, and rows without it were just read or are being read.
func TestARefusalTellsWhatWasAnsweredBefore(t *testing.T) {
	rules := vtest.WithRules(append(slices.Clone(secondAndHourRules),
		quota.Rule{Name: "net", Scope: quota.IP, Limit: 2, Window: time.Minute})...)
	apart := vtest.From(netip.MustParseAddr("192.0.2.77"))
	readLasts := map[string]time.Duration{"read before": 0, "being read": 200 * time.Millisecond}
	vtest.EachInBubble(t, readLasts, rules, func(r *vtest.Rig, lasts time.Duration) {
		r.SendTo(vtest.Ana, apart)
		r.Sleep(950 * time.Millisecond)
		other := r.ReplicaOn(&lateLook{DB: r.Store, after: lasts}, r.MailServer, r.Carrier)
		var read sync.WaitGroup
		read.Go(func() { r.AskAt(other, vtest.AskFor(vtest.Ana, apart), false) })
		r.Sleep(50 * time.Millisecond)
		r.SendTo(vtest.Ana, apart)
		r.ReplaceLimiter()
		r.SendTo("bob@example.com")
		r.SendTo("eve@example.com")
		began := time.Now()
		a := r.AskAt(other, vtest.AskFor(vtest.Ana), false)
		// The limiter decides when the rows are requested, not when they have been read.
		r.WantQuota("a refusal", a.Quota, "[0 3 0]", time.Minute-time.Since(began)+lasts)
		read.Wait()
	})
}

// A process is delayed between its read of a row and its Record. If an administrator resets the
// recipient meanwhile, the event does not count again. Without a reset, Record adds the event with
// its age, unless it is called more than maxRecordDelay after the read.
func TestRecordThatIsLate(t *testing.T) {
	for name, c := range map[string]struct {
		parked        time.Duration
		reset         bool
		counted, wait time.Duration
	}{
		"a moment":           {4 * time.Second, false, 1, time.Hour - 14*time.Second},
		"too long":           {6 * time.Second, false, 0, 0},
		"during a reset":     {4 * time.Second, true, 0, 0},
		"long after a reset": {6 * time.Second, true, 0, 0},
	} {
		rule := vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 1, Window: time.Hour})
		vtest.InBubbleWith(t, rule, func(r *vtest.Rig) {
			r.SendTo(vtest.Ana)
			r.Sleep(10 * time.Second)
			r.ReplaceLimiter()
			parked := r.ReplicaOn(&lateLook{DB: r.Store, after: c.parked, only: 2}, r.MailServer, r.Carrier)
			var look sync.WaitGroup
			look.Go(func() { r.QuotaAt(parked) })
			r.Sleep(time.Second)
			if c.reset {
				r.NoError(r.Svc.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")))
			}
			look.Wait()
			d := r.Counted()
			vtest.Equal(r, name+": Used", d.Rules[0].Used, int(c.counted))
			vtest.Equal(r, name+": RetryAfter", d.RetryAfter(), c.wait)
		})
	}
}

// An age is computed at the read. Record adds the time since then: in the limiter, even if it runs
// late, and in this process, unless this process's clock was set back.
func TestRecordAddsTheTimeSinceTheRead(t *testing.T) {
	rule := quota.Rule{Name: "hour", Scope: policy.BackoffScope, Limit: 1, Window: time.Hour}
	for since, age := range map[time.Duration]time.Duration{3 * time.Second: 13 * time.Second, -3 * time.Second: 10 * time.Second} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			r.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
				if call == "Record" {
					r.Sleep(time.Second)
				}
				return do()
			})
			r.NoError(r.Svc.Gates.Record(r.Context(), policy.BackoffScope, "bucket", time.Hour, time.Now().Add(-since),
				quota.AgedEvent{ID: "send", Age: 10 * time.Second}))
			for _, place := range []string{"the limiter", "this process"} {
				d, err := r.Svc.Gates.PeekOrLocal(r.Context(), quota.Request{
					Rules:   []quota.Rule{rule},
					Buckets: map[quota.Scope]string{policy.BackoffScope: "bucket"},
				})
				r.NoError(err)
				r.Want("the wait by "+place, d.RetryAfter(), time.Hour-age-time.Second)
				r.LoseLimiter()
			}
			r.Limiter.Intercept(func(context.Context, string, func() error) error {
				t.Error("the limiter is called less than a second after it failed")
				return nil
			})
			r.Want("recorded while the limiter is away", r.Svc.Gates.Record(r.Context(), quota.Recipient, "bucket", time.Hour, time.Now(),
				quota.AgedEvent{ID: "send"}) != nil, true)
			r.Limiter.Intercept(nil) // because the stop calls the limiter
		})
	}
}

// Failures are added by their ages, also on a clock that is behind.
func TestLooksAddFailures(t *testing.T) {
	vtest.InBubbleWith(t, vtest.BoundFailures, func(r *vtest.Rig) {
		r.FailSends(2)
		server := vtest.NewFakeRedis()
		server.Step(-time.Hour)
		r.Limiter.Set(server)
		r.QuotaAt(r.Svc)
		s := r.CountedFailures()
		vtest.Equal(r, "failures", s.Used, 2)
		vtest.Equal(r, "until the first leaves", s.ResetAfter, 24*time.Hour-2*time.Minute)
	})
}

// The limiter's clock steps, in both directions. Only a step back prolongs a wait, and no wait is
// longer than the rule's window.
func TestWaitsWhileTheLimitersClockSteps(t *testing.T) {
	for step, wait := range map[time.Duration]time.Duration{
		-time.Hour: time.Minute, -time.Second: 51 * time.Second, time.Second: 50 * time.Second, time.Hour: 50 * time.Second,
	} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			server := vtest.NewFakeRedis()
			r.Limiter.Set(server)
			r.SendTo(vtest.Ana)
			r.Sleep(10 * time.Second)
			server.Step(step)
			r.WantQuota("a look", r.QuotaAt(r.Svc), "[0 4 9]", wait)
			r.WantBlockedBy(r.RefuseTo(vtest.Ana).Quota, "minute", wait)
			r.Sleep(wait - time.Microsecond)
			r.RefuseTo(vtest.Ana)
			r.Sleep(time.Microsecond)
			r.SendTo(vtest.Ana)
		})
	}
}

// The limiter's clock is already in the next day: it admits, and the database refuses. No answer
// contains the difference of the clocks.
func TestAnswersHideThatTheLimiterIsInTheNextDay(t *testing.T) {
	daily := vtest.WithRules(quota.Rule{Name: "today", Scope: quota.Recipient, Limit: 1, Per: quota.Day})
	vtest.InBubbleWith(t, vtest.MinuteTick(daily), func(r *vtest.Rig) { // starts at midnight
		server := vtest.NewFakeRedis()
		r.Limiter.Set(server)
		r.SendTo(vtest.Ana)
		r.Sleep(24*time.Hour - 5*time.Second)
		server.Step(5 * time.Second)
		r.WantQuota("5 s early", r.RefuseTo(vtest.Ana).Quota, "[0]", 5*time.Second)
		r.Sleep(5 * time.Second)
		r.SendTo(vtest.Ana)
		r.WantWait(r.RefuseTo(vtest.Ana).Quota, 24*time.Hour)
	})
}
