package sms

import (
	"context"
	"slices"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/failover"
	"sendcode/internal/servertest"
)

// scripted is a carrier whose outcomes are told.
type scripted struct {
	name string
	fail *Error
	got  []Message
}

func (s *scripted) Name() string { return s.name }

func (s *scripted) Send(_ context.Context, m Message) (Receipt, *Error) {
	s.got = append(s.got, m)
	return Receipt{}, s.fail
}

// sample is a message that every carrier takes.
var sample = Message{ID: "s", To: "+8613812345678", Country: "CN"}

// send sends the sample.
func send(all *Carriers) *Error {
	_, err := all.Send(context.Background(), sample)
	fail, _ := err.(*Error)
	return fail
}

func failing(class delivery.Class) *Error {
	return &Error{Class: class, Stage: StageAnswer, Status: 500}
}

// Only what was certainly not accepted is offered to the next carrier.
func TestFailover(t *testing.T) {
	for name, c := range map[string]struct {
		first *Error
		want  int // messages that the second gets
	}{
		"accepted": {nil, 0}, "rejected": {failing(delivery.Rejected), 0}, "unknown": {failing(delivery.Unknown), 0},
		"temporary": {failing(delivery.Temporary), 1},
		"limit":     {&Error{Class: delivery.Rejected, Reason: ReasonLimit, Hold: time.Minute}, 0},
	} {
		first, second := &scripted{name: "first", fail: c.first}, &scripted{name: "second"}
		all := NewCarriers([]Route{{Carrier: first}, {Carrier: second}}, Options{})
		receipt, err := all.Send(t.Context(), sample)
		if len(first.got) != 1 || len(second.got) != c.want {
			t.Errorf("%s: %d, %d", name, len(first.got), len(second.got))
		}
		if c.want == 1 && (err != nil || receipt.Provider != "second") || c.want == 0 && (err == nil) != (c.first == nil) {
			t.Errorf("%s: %v, %v", name, receipt, err)
		}
	}
}

func TestRoutesByPrefix(t *testing.T) {
	china, rest := &scripted{name: "china"}, &scripted{name: "rest"}
	all := NewCarriers([]Route{{Carrier: china, Prefixes: []string{"+86", "+852"}}, {Carrier: rest, Prefixes: []string{"+1", "+49"}}}, Options{
		Sender: "Shop", Senders: map[string]string{"DE": "12345", "CN": ""},
		Callback: func(carrier, send string) string { return "https://x/" + carrier + "/" + send },
	})
	for to, c := range map[string]struct {
		country string
		carrier *scripted
		sender  string
	}{
		"+8613812345678": {"CN", china, ""}, "+85261234567": {"HK", china, "Shop"}, "+4915112345678": {"DE", rest, "12345"},
		"+12025550123": {"US", rest, "Shop"},
	} {
		receipt, err := all.Send(t.Context(), Message{ID: "s", To: to, Country: c.country})
		if err != nil || receipt.Provider != c.carrier.name {
			t.Fatalf("%s: %+v, %v", to, receipt, err)
		}
		if m := c.carrier.got[len(c.carrier.got)-1]; m.To != to || m.Sender != c.sender || m.Callback != "https://x/"+c.carrier.name+"/s" {
			t.Errorf("%+v", m)
		}
	}
	_, err := all.Send(t.Context(), Message{To: "+33612345678", Country: "FR"})
	if e, ok := err.(*Error); !ok || e.Class != delivery.Temporary || e.Err != errNoRoute {
		t.Errorf("%v", err)
	}
}

func TestCarriersAreSetAside(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		first, second := &scripted{name: "first", fail: failing(delivery.Temporary)}, &scripted{name: "second"}
		var heard []bool
		all := NewCarriers([]Route{{Carrier: first}, {Carrier: second}}, Options{Watch: func(h failover.Health) { heard = append(heard, h.Up) }})
		sendFive := func(wantFirst int, wantUp bool) {
			t.Helper()
			first.got = nil
			for range 5 {
				if fail := send(all); fail != nil {
					t.Error(fail)
				}
			}
			if h := all.Health(); len(first.got) != wantFirst || h[0].Up != wantUp || (h[0].Why == "") != wantUp || !h[1].Up {
				t.Errorf("%d messages to the first, %+v", len(first.got), h)
			}
		}
		sendFive(failover.FaultsInRow, false)
		time.Sleep(failover.RestFor + time.Millisecond)
		first.fail = nil
		sendFive(5, true)
		if !slices.Equal(heard, []bool{false, true}) {
			t.Errorf("%v", heard)
		}
	})
}

// A carrier that refuses numbers does its work; one that times out does not, though its messages go nowhere else, and neither does one that
// fails half of the time.
func TestWhatIsHeldAgainstACarrier(t *testing.T) {
	for class, want := range map[delivery.Class]bool{delivery.Rejected: true, delivery.Unknown: false, delivery.Temporary: false} {
		all := NewCarriers([]Route{{Carrier: &scripted{name: "only", fail: failing(class)}}}, Options{})
		for range failover.FaultsInRow {
			send(all)
		}
		if up := all.Health()[0].Up; up != want {
			t.Errorf("%v: up %v", class, up)
		}
		if e := send(all); (e.Err == errAside && e.Stage == delivery.StageAside) == want {
			t.Errorf("%v: %v", class, e)
		}
	}
	c := &scripted{name: "c"}
	all := NewCarriers([]Route{{Carrier: c}}, Options{})
	for n := range failover.RateFrom {
		c.fail = []*Error{nil, failing(delivery.Temporary)}[n%2]
		send(all)
	}
	if all.Health()[0].Up {
		t.Error("still up")
	}
}

// The cost is set aside before a carrier hears of a message, and taken back only when it certainly did not accept it.
func TestCosts(t *testing.T) {
	for name, c := range map[string]struct {
		outcome *Error
		back    int
	}{"accepted": {nil, 0}, "unknown": {failing(delivery.Unknown), 0}, "rejected": {failing(delivery.Rejected), 1},
		"temporary": {failing(delivery.Temporary), 1}} {
		carrier, back, costs := &scripted{name: "c", fail: c.outcome}, 0, []int64(nil)
		all := NewCarriers([]Route{{Carrier: carrier, Prices: map[string]int64{"DE": 75_000}, DefaultPrice: 100_000}}, Options{
			Reserve: func(_ context.Context, _ Message, cost int64) (func(), *Error) {
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

// What no cap has room for goes nowhere, but a cheaper carrier may take it. A cap ends nothing while it is not known whether another carrier
// takes the message later: it is away, or the ledger is. No cap is held against a carrier.
func TestCapsStopMessages(t *testing.T) {
	over := &Error{Class: delivery.Rejected, Stage: StageBudget, Reason: ReasonSpend}
	unknown := &Error{Class: delivery.Temporary, Stage: StageBudget}
	for name, c := range map[string]struct {
		unpaid, fail *Error // of the cheap carrier
		want         delivery.Class
		asked        int // the cheap one, of as many times and one more as set it aside
	}{
		"the cheap one takes it":           {nil, nil, "", failover.FaultsInRow + 1},
		"no room for either":               {over, nil, delivery.Rejected, 0},
		"the cheap one is away":            {nil, failing(delivery.Temporary), delivery.Temporary, failover.FaultsInRow},
		"the ledger of the cheap one is":   {unknown, nil, delivery.Temporary, 0},
		"the cheap one takes no such text": {nil, failing(delivery.Rejected), delivery.Rejected, failover.FaultsInRow + 1},
	} {
		for _, cheapFirst := range []bool{true, false} {
			cheap, dear := &scripted{name: "cheap", fail: c.fail}, &scripted{name: "dear"}
			routes := []Route{{Carrier: cheap, DefaultPrice: 30}, {Carrier: dear, DefaultPrice: 60}}
			if !cheapFirst {
				slices.Reverse(routes)
			}
			all := NewCarriers(routes, Options{Reserve: func(_ context.Context, _ Message, cost int64) (func(), *Error) {
				if cost > 50 {
					return nil, over
				}
				return func() {}, c.unpaid
			}})
			for range failover.FaultsInRow + 1 {
				if e := send(all); (e == nil) != (c.want == "") || e != nil && (e.Class != c.want || c.unpaid == over && e.Reason != ReasonSpend) {
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
