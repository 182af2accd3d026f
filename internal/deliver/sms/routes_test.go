package sms

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/kit/servertest"
)

// scripted is a carrier that keeps each message in got and returns fail.
type scripted struct {
	name string
	fail *delivery.Error
	got  []Message
}

func (s *scripted) Name() string { return s.name }

func (s *scripted) Send(_ context.Context, m Message) (delivery.Result, *delivery.Error) {
	s.got = append(s.got, m)
	return delivery.Result{}, s.fail
}

var sample = Message{ID: "s", To: "+8613812345678", Country: "CN"}

func send(all *Carriers) *delivery.Error {
	_, err := all.Send(context.Background(), sample)
	fail, _ := err.(*delivery.Error)
	return fail
}

func failing(class delivery.ErrorClass) *delivery.Error {
	return &delivery.Error{Class: class, Stage: delivery.StageAnswer, Status: 500}
}

// suspend makes the nth carrier fail until it is set aside.
func suspend(all *Carriers, n int) {
	for range delivery.FaultsToOpenBreaker {
		report, _ := all.routes[n].breaker.Allow()
		report(failing(delivery.Temporary))
	}
}

// A resend goes to another carrier first, but not to one whose last message failed.
func TestCarriersResendAvoidsAFailingOne(t *testing.T) {
	first, second := &scripted{name: "first"}, &scripted{name: "second", fail: failing(delivery.Temporary)}
	all := NewCarriers([]Route{{Carrier: first}, {Carrier: second}}, CarriersOptions{})
	resend := sample
	resend.Used = []string{"first"}
	for range 3 {
		_, err := all.Send(t.Context(), resend)
		servertest.OK(t, err)
	}
	servertest.Same(t, "messages", [2]int{len(first.got), len(second.got)}, [2]int{3, 1})
}

// The next carrier gets only the messages that were certainly not accepted, and those that come
// while the first carrier is set aside.
func TestCarriersFailover(t *testing.T) {
	const n = delivery.FaultsToOpenBreaker
	for name, c := range map[string]struct {
		fail          *delivery.Error
		first, second int // the number of messages, of n+1, that each gets
	}{
		"accepted": {nil, n + 1, 0}, "rejected": {failing(delivery.Rejected), n + 1, 0},
		"unknown":   {failing(delivery.Unknown), n, 1},
		"temporary": {failing(delivery.Temporary), n, n + 1},
		"limit":     {&delivery.Error{Class: delivery.Rejected, Reason: ReasonCarrierLimit, Hold: time.Minute}, n + 1, 0},
		// This failure does not count against the carrier.
		"unreachable": {&delivery.Error{Class: delivery.Rejected, Elsewhere: true}, n + 1, n + 1},
	} {
		first, second := &scripted{name: "first", fail: c.fail}, &scripted{name: "second"}
		all := NewCarriers([]Route{{Carrier: first}, {Carrier: second}}, CarriersOptions{})
		for range n + 1 {
			asked := len(second.got)
			result, err := all.Send(t.Context(), sample)
			if went := len(second.got) > asked; went && (err != nil || result.Provider != "second") ||
				!went && (err == nil) != (c.fail == nil) {
				t.Errorf("%s: %v, %v", name, result, err)
			}
		}
		servertest.Same(t, name+": messages of each", [2]int{len(first.got), len(second.got)}, [2]int{c.first, c.second})
	}
}

// OnAttempt gets the refusal of a number with Chosen only if the message is a stranger's.
func TestCarriersReportAStrangersRefusalAsChosen(t *testing.T) {
	for _, stranger := range []bool{true, false} {
		seen := []bool(nil)
		carrier := &scripted{name: "first", fail: &delivery.Error{Class: delivery.Rejected, About: delivery.AboutAddress}}
		m := sample
		m.Stranger = stranger
		_, _ = NewCarriers([]Route{{Carrier: carrier}}, CarriersOptions{
			OnAttempt: func(_ context.Context, _ string, fail *delivery.Error, _ time.Duration) {
				seen = append(seen, fail.Chosen)
			},
		}).Send(t.Context(), m)
		servertest.Same(t, "chosen", fmt.Sprint(seen), fmt.Sprint([]bool{stranger}))
	}
}

// A number that no carrier reaches is rejected. If a carrier that reaches it is set aside, or its
// cap is used up for now, the message waits for that carrier.
func TestSendToAnUnreachableNumber(t *testing.T) {
	unreachable := &delivery.Error{Class: delivery.Rejected, Stage: delivery.StageAnswer, Status: 200, Elsewhere: true}
	first, second := &scripted{name: "first", fail: unreachable}, &scripted{name: "second", fail: unreachable}
	routes := []Route{{Carrier: first}, {Carrier: second}}
	if fail := send(NewCarriers(routes, CarriersOptions{})); fail != unreachable || len(second.got) != 1 {
		t.Errorf("%v, %d", fail, len(second.got))
	}
	capped := &delivery.Error{Class: delivery.Temporary, Reason: "spend_cap"}
	if fail := send(NewCarriers(routes, CarriersOptions{Reserve: func(_ context.Context, m Message, _ int64) (func(), *delivery.Error) {
		if len(first.got) > 1 {
			return nil, capped
		}
		return func() {}, nil
	}})); fail != capped || len(second.got) != 1 {
		t.Errorf("%v, %d", fail, len(second.got))
	}
	// The message waits for a carrier that may accept it later, even if a carrier behind it cannot
	// reach the number.
	first.fail = failing(delivery.Temporary)
	if result, err := NewCarriers(routes, CarriersOptions{}).Send(t.Context(), sample); err != error(first.fail) || result.Provider != "first" {
		t.Errorf("%v, %v", result, err)
	}
	first.fail = unreachable
	for n := range routes {
		all := NewCarriers(routes, CarriersOptions{})
		suspend(all, n)
		if fail := send(all); fail == nil || fail.Class != delivery.Temporary || fail.Stage != delivery.StageAllSetAside {
			t.Errorf("while carrier %d is set aside: %v", n, fail)
		}
	}
}

func TestRoutesByPrefix(t *testing.T) {
	china, rest := &scripted{name: "china"}, &scripted{name: "rest"}
	all := NewCarriers([]Route{
		{Carrier: china, Prefixes: []string{"+86", "+852"}},
		{Carrier: rest, Prefixes: []string{"+1", "+49"}},
	}, CarriersOptions{
		Sender: "Shop", Senders: map[string]string{"DE": "12345", "CN": ""},
		CallbackURL: func(carrier, send string) string { return "https://x/" + carrier + "/" + send },
	})
	for to, c := range map[string]struct {
		country string
		carrier *scripted
		sender  string
	}{
		"+8613812345678": {"CN", china, ""}, "+85261234567": {"HK", china, "Shop"},
		"+4915112345678": {"DE", rest, "12345"},
		"+12025550123":   {"US", rest, "Shop"},
	} {
		result, err := all.Send(t.Context(), Message{ID: "s", To: to, Country: c.country})
		if err != nil || result.Provider != c.carrier.name {
			t.Fatalf("%s: %+v, %v", to, result, err)
		}
		m := c.carrier.got[len(c.carrier.got)-1]
		servertest.Same(t, "the message", [3]string{m.To, m.Sender, m.CallbackURL},
			[3]string{to, c.sender, "https://x/" + c.carrier.name + "/s"})
	}
	_, err := all.Send(t.Context(), Message{To: "+33612345678", Country: "FR"})
	if e, ok := err.(*delivery.Error); !ok || e.Class != delivery.Temporary || e.Err != errNoRoute {
		t.Errorf("%v", err)
	}
}

// suspended is true if every carrier for some numbers is set aside, even if other numbers have a
// carrier that works.
func TestHasUnreachableNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		prefixes [][]string // the prefixes of each carrier
		failed   []int      // carriers
		want     bool
	}{
		"all in use":                  {[][]string{nil, nil}, nil, false},
		"one of two":                  {[][]string{nil, nil}, []int{0}, false},
		"both":                        {[][]string{nil, nil}, []int{0, 1}, true},
		"the only one":                {[][]string{nil}, []int{0}, true},
		"the only one of a prefix":    {[][]string{{"+1", "+86"}, {"+1", "+49"}}, []int{0}, true},
		"one of two of a prefix":      {[][]string{{"+86"}, {"+1", "+86"}}, []int{0}, false},
		"a prefix that another takes": {[][]string{{"+86"}, nil}, []int{0}, false},
		"the one of all others":       {[][]string{{"+86"}, nil}, []int{1}, true},
		"the one of a longer prefix":  {[][]string{{"+4915"}, {"+49"}}, []int{0}, false},
		"the one of a shorter prefix": {[][]string{{"+4915"}, {"+49"}}, []int{1}, true},
	} {
		var routes []Route
		for n, prefixes := range c.prefixes {
			routes = append(routes, Route{Carrier: &scripted{name: strconv.Itoa(n)}, Prefixes: prefixes})
		}
		all := NewCarriers(routes, CarriersOptions{})
		for _, n := range c.failed {
			suspend(all, n)
		}
		if got, noAttemptAllowed := all.HasUnreachableNumbers(); got != c.want || noAttemptAllowed != c.want {
			t.Errorf("%s: suspended %v, and no message would be tried %v", name, got, noAttemptAllowed)
		}
	}
}

// noAttemptAllowed ends when the breakers allow an attempt for all numbers, even if suspended lasts
// longer.
func TestHasUnreachableNumbersUntilATryIsAllowed(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		all := NewCarriers([]Route{
			{Carrier: &scripted{name: "one"}, Prefixes: []string{"+1"}},
			{Carrier: &scripted{name: "two"}, Prefixes: []string{"+49"}},
		}, CarriersOptions{})
		type state struct{ suspended, noAttemptAllowed bool }
		want := func(when string, want state) {
			t.Helper()
			var got state
			got.suspended, got.noAttemptAllowed = all.HasUnreachableNumbers()
			servertest.Same(t, when, got, want)
		}
		want("at first", state{})
		suspend(all, 0)
		want("one", state{suspended: true, noAttemptAllowed: true})
		time.Sleep(delivery.BreakerOpenFor + time.Millisecond)
		want("one, after its end", state{suspended: true})
		suspend(all, 1)
		want("and two", state{suspended: true, noAttemptAllowed: true})
		time.Sleep(delivery.BreakerOpenFor + time.Millisecond)
		want("both, after their end", state{suspended: true})
		report, _ := all.routes[0].breaker.Allow()
		want("while one is tried", state{suspended: true, noAttemptAllowed: true})
		report(nil)
		want("one works", state{suspended: true})
	})
}

// A carrier that refuses numbers counts as working. A carrier that times out does not, even if its
// messages go to no other carrier, and neither does a carrier that fails half of the time.
func TestCarriersHealth(t *testing.T) {
	fails := func(class delivery.ErrorClass) []*delivery.Error {
		return slices.Repeat([]*delivery.Error{failing(class)}, delivery.FaultsToOpenBreaker)
	}
	half := slices.Repeat([]*delivery.Error{nil, failing(delivery.Temporary)}, delivery.MinAttemptsForFaultRate/2)
	for name, c := range map[string]struct {
		outcomes []*delivery.Error
		up       bool
	}{
		"refusals": {fails(delivery.Rejected), true}, "no answers": {fails(delivery.Unknown), false},
		"faults": {fails(delivery.Temporary), false}, "half": {half, false}, "fewer": {half[2:], true},
	} {
		only, reportedUp := &scripted{name: "only"}, true
		all := NewCarriers([]Route{{Carrier: only}}, CarriersOptions{OnHealthChange: func(h delivery.Health) { reportedUp = h.Up }})
		for _, only.fail = range c.outcomes {
			send(all)
		}
		if h := all.Health()[0]; h.Up != c.up || reportedUp != c.up || h.Server != "only" {
			t.Errorf("%s: %+v, told %v", name, h, reportedUp)
		}
		only.fail = failing(delivery.Rejected)
		if e := send(all); (e.Err == errAllSetAside && e.Stage == delivery.StageAllSetAside) == c.up {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// noRoute is a temporary failure that may concern only the message's number.
var noRoute = &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageAnswer, Status: 200, About: delivery.AboutRecipient}

// Errors that may concern one number set no carrier aside. That holds for any number of errors of
// one prefix, also between successes, and for errors of messages for strangers, who choose their
// numbers. Errors of enough different prefixes set a carrier aside, and errors about the account do
// so at once. Each prefix counts again after two minutes.
func TestErrorsOfOneNumberSuspendNoCarrier(t *testing.T) {
	by := func(fail *delivery.Error, prefix string, stranger bool) func(c *scripted, all *Carriers) {
		return func(c *scripted, all *Carriers) {
			c.fail = fail
			_, _ = all.Send(t.Context(), Message{To: prefix + "5550123", Prefix: prefix, Stranger: stranger})
		}
	}
	type step = func(*scripted, *Carriers)
	prefix := func(n int) string { return "+49" + strconv.Itoa(150+n) }
	own := func(n int, fail *delivery.Error, stranger bool) (all []step) {
		for i := range n {
			all = append(all, by(fail, prefix(i), stranger))
		}
		return all
	}
	later := step(func(*scripted, *Carriers) { time.Sleep(rememberFailuresFor) })
	soon := step(func(*scripted, *Carriers) { time.Sleep(rememberFailuresFor / 8) }) // within the minute of the breaker
	failed, sent := by(noRoute, prefix(0), false), by(nil, prefix(1), false)
	account := by(&delivery.Error{Class: delivery.Temporary, Stage: delivery.StageAnswer, Status: 402, About: delivery.AboutAccount},
		prefix(0), true)
	for name, c := range map[string]struct {
		steps []step
		up    bool
	}{
		"one prefix":                    {slices.Repeat([]step{failed}, 50), true},
		"one prefix, between successes": {slices.Repeat([]step{failed, sent}, 25), true},
		"fewer prefixes":                {own(delivery.FaultsToOpenBreaker-1, noRoute, false), true},
		"prefixes":                      {own(delivery.FaultsToOpenBreaker, noRoute, false), false},
		"strangers' prefixes":           {own(50, noRoute, true), true},
		"the account":                   {slices.Repeat([]step{account}, delivery.FaultsToOpenBreaker), false},
		"the account, and one prefix":   {[]step{account, failed, failed, account, failed, account}, false},
		"one prefix, again and again":   {slices.Repeat([]step{failed, soon}, 2*delivery.FaultsToOpenBreaker), true},
		"one prefix, later":             {slices.Repeat([]step{failed, later}, delivery.FaultsToOpenBreaker+1), true},
		"prefixes that failed before": {slices.Concat(own(2, noRoute, false), []step{later},
			own(delivery.FaultsToOpenBreaker, noRoute, false)), false},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				only := &scripted{name: "only"}
				all := NewCarriers([]Route{{Carrier: only}}, CarriersOptions{})
				for _, do := range c.steps {
					do(only, all)
				}
				if h := all.Health()[0]; h.Up != c.up {
					t.Errorf("%+v, want up %v", h, c.up)
				}
			})
		})
	}
}

// A carrier remembers only a limited number of prefixes that failed.
func TestCarriersBoundFailedPrefixes(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		only := &scripted{name: "only"}
		all := NewCarriers([]Route{{Carrier: only}}, CarriersOptions{})
		for n := range 10 * maxRememberedPrefixes {
			for _, only.fail = range []*delivery.Error{noRoute, nil, nil} {
				_, _ = all.Send(t.Context(), Message{To: "+49", Prefix: strconv.Itoa(n)})
			}
		}
		if kept := len(all.routes[0].failed); kept != maxRememberedPrefixes || !all.Health()[0].Up {
			t.Errorf("%d prefixes are kept, want %d; %+v", kept, maxRememberedPrefixes, all.Health())
		}
	})
}

// The cost is reserved before a carrier gets a message, and given back only if the carrier
// certainly did not accept the message.
func TestCarriersReserveCosts(t *testing.T) {
	for name, c := range map[string]struct {
		outcome *delivery.Error
		back    int
	}{
		"accepted": {nil, 0}, "unknown": {failing(delivery.Unknown), 0}, "rejected": {failing(delivery.Rejected), 1},
		"temporary": {failing(delivery.Temporary), 1},
	} {
		carrier, back, costs := &scripted{name: "c", fail: c.outcome}, 0, []int64(nil)
		all := NewCarriers([]Route{{Carrier: carrier, Prices: map[string]int64{"DE": 75_000}, DefaultPrice: 100_000}}, CarriersOptions{
			Reserve: func(_ context.Context, _ Message, cost int64) (func(), *delivery.Error) {
				if len(carrier.got) >= len(costs)+1 {
					t.Errorf("%s: the carrier knew first", name)
				}
				costs = append(costs, cost)
				return func() { back++ }, nil
			},
		})
		_, _ = all.Send(t.Context(), Message{To: "+49", Country: "DE", Segments: 2})
		_, _ = all.Send(t.Context(), Message{To: "+33", Country: "FR"})
		if !slices.Equal(costs, []int64{150_000, 100_000}) || back != 2*c.back {
			t.Errorf("%s: costs %v, %d taken back", name, costs, back)
		}
	}
}

// A message whose cost exceeds a cap is not sent, but a cheaper carrier may send it. A cap does not
// end the message if another carrier may accept it later, when that carrier or the ledger is
// available again. No cap counts against a carrier.
func TestCarriersStopAtSpendCaps(t *testing.T) {
	over := &delivery.Error{Class: delivery.Rejected, Stage: StageBudget, Reason: ReasonSpendCap}
	unknown := &delivery.Error{Class: delivery.Temporary, Stage: StageBudget}
	for name, c := range map[string]struct {
		unpaid, fail *delivery.Error // errors of the cheap carrier
		want         delivery.ErrorClass
		asked        int // how many of FaultsToOpenBreaker+1 messages the cheap carrier gets
	}{
		"the cheap one takes it":           {nil, nil, "", delivery.FaultsToOpenBreaker + 1},
		"no room for either":               {over, nil, delivery.Rejected, 0},
		"the cheap one is away":            {nil, failing(delivery.Temporary), delivery.Temporary, delivery.FaultsToOpenBreaker},
		"the ledger of the cheap one is":   {unknown, nil, delivery.Temporary, 0},
		"the cheap one takes no such text": {nil, failing(delivery.Rejected), delivery.Rejected, delivery.FaultsToOpenBreaker + 1},
	} {
		for _, cheapFirst := range []bool{true, false} {
			cheap, dear := &scripted{name: "cheap", fail: c.fail}, &scripted{name: "dear"}
			routes := []Route{{Carrier: cheap, DefaultPrice: 30}, {Carrier: dear, DefaultPrice: 60}}
			if !cheapFirst {
				slices.Reverse(routes)
			}
			all := NewCarriers(routes, CarriersOptions{Reserve: func(_ context.Context, _ Message, cost int64) (func(), *delivery.Error) {
				if cost > 50 {
					return nil, over
				}
				return func() {}, c.unpaid
			}})
			for range delivery.FaultsToOpenBreaker + 1 {
				if e := send(all); (e == nil) != (c.want == "") ||
					e != nil && (e.Class != c.want || c.unpaid == over && e.Reason != ReasonSpendCap) {
					t.Errorf("%s, first %v: %v", name, cheapFirst, e)
				}
			}
			if up := all.routeByName("cheap").breaker.Health().Up; len(cheap.got) != c.asked || len(dear.got) != 0 ||
				up == (c.want == delivery.Temporary && c.unpaid == nil) || !all.routeByName("dear").breaker.Health().Up {
				t.Errorf("%s, first %v: asked %d and %d times, %+v", name, cheapFirst, len(cheap.got), len(dear.got), all.Health())
			}
		}
	}
}

// While one carrier is up, the carriers admit any number of messages. While all are suspended, they
// admit one message for each carrier that may be tried.
func TestCarriersAttemptsAllowed(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		all := NewCarriers([]Route{{Carrier: &scripted{name: "first"}}, {Carrier: &scripted{name: "second"}}}, CarriersOptions{})
		admits := func(when string, want int) {
			t.Helper()
			if n := all.AttemptsAllowed(); n != want {
				t.Errorf("%s they admit %d, want %d", when, n, want)
			}
		}
		admits("at first", delivery.UnlimitedAttempts)
		suspend(all, 0)
		admits("with one suspended", delivery.UnlimitedAttempts)
		suspend(all, 1)
		admits("with both suspended", 0)
		time.Sleep(delivery.BreakerOpenFor + time.Millisecond)
		admits("once both may be tried", 2)
	})
}

// panicking is a carrier that panics before or after it has sent a byte of the request.
type panicking struct {
	scripted
	after bool
}

func (p *panicking) Send(ctx context.Context, _ Message) (delivery.Result, *delivery.Error) {
	delivery.SetHandover(ctx, p.after)
	panic("planted")
}

// A panic ends the one attempt that a breaker allows for a carrier that was set aside, so the
// breaker allows another attempt. The cost is given back, unless the carrier may have the message.
func TestCarriersSendThatPanics(t *testing.T) {
	for _, after := range []bool{false, true} {
		servertest.Bubble(t, func(t *testing.T) {
			cost := 0
			all := NewCarriers([]Route{{Carrier: &panicking{after: after}}}, CarriersOptions{
				Reserve: func(context.Context, Message, int64) (func(), *delivery.Error) { cost++; return func() { cost-- }, nil },
			})
			suspend(all, 0)
			time.Sleep(delivery.BreakerOpenFor + 1)
			func() {
				defer func() { servertest.Same(t, "the panic goes on", recover(), any("planted")) }()
				_, _ = all.Send(delivery.WithHandover(t.Context()), sample)
			}()
			servertest.Same(t, "attempts allowed", all.AttemptsAllowed(), 1)
			servertest.Same(t, "spent", cost == 1, after)
		})
	}
}
