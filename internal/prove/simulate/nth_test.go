package simulate_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"sendcode/internal/prove/simulate"
)

// journeys are short plans, to each of which Failing adds a call that fails. Only refund and expiry
// have a fault of their own.
var journeys = map[string][]simulate.Event{
	"send":         {{Kind: simulate.SendByBackEnd}},
	"waited send":  {{Kind: simulate.SendByBackEnd, Wait: true}},
	"browser":      {{Kind: simulate.SendByBrowser}, {Kind: simulate.Resend, Browser: true, At: 61 * time.Second}},
	"text message": {{Kind: simulate.SendByBackEnd, Person: 2}},
	"resend":       {{Kind: simulate.SendByBackEnd}, {Kind: simulate.Resend, At: 61 * time.Second}},
	"repetition":   {{Kind: simulate.Repeat, N: 1}},
	"check": {
		{Kind: simulate.SendByBackEnd},
		{Kind: simulate.Guess, N: 1, At: 2 * time.Second},
		{Kind: simulate.Check, At: 4 * time.Second},
	},
	"refusal, look": {
		{Kind: simulate.SendByBackEnd},
		{Kind: simulate.SendByBackEnd, At: 10 * time.Second},
		{Kind: simulate.Look, At: 20 * time.Second},
	},
	"refund": {
		{Kind: simulate.ServerRefuses, For: 20 * time.Second},
		{Kind: simulate.SendByBackEnd, At: time.Second},
		{Kind: simulate.SendByBackEnd, At: 25 * time.Second},
	},
	"expiry": {
		{Kind: simulate.ServerBusy, For: 6 * time.Minute},
		{Kind: simulate.SendByBackEnd, At: time.Second},
		{Kind: simulate.SendByBackEnd, At: 7 * time.Minute},
	},
	"cancel": {{Kind: simulate.SendByBackEnd}, {Kind: simulate.Cancel, At: 5 * time.Second}},
	"reset": {
		{Kind: simulate.SendByBackEnd},
		{Kind: simulate.Reset, At: 5 * time.Second},
		{Kind: simulate.SendByBackEnd, At: 15 * time.Second},
	},
	"erasure": {
		{Kind: simulate.SendByBackEnd}, {Kind: simulate.Erase, At: 5 * time.Second},
	},
}

// since is the instant from which calls fail, for each kind of journey. A send includes the start
// with its jobs. In the other journeys, the jobs of the start have ended: a resend comes after the
// journey of a send, and an expiry after eight equal attempts.
var since = map[string]time.Duration{"send": 0, "resend": started + time.Minute, "expiry": started + 4*time.Minute + 10*time.Second}

const started = 10 * time.Second

// In each journey, the nth call to the database, the limiter or the mail server fails. n grows
// until the journey ends without this call, as in SQLite's loops of failures
// (sqlite.org/testing.html, section 3). The other faults of that part are tried at the same calls.
func TestEveryCallFailsOnce(t *testing.T) {
	for name, events := range journeys {
		t.Run(name, func(t *testing.T) {
			from, known := since[name]
			if !known {
				from = started
			}
			events = slices.Clone(events)
			for i := range events {
				events[i].At += min(from, started)
			}
			for part, faults := range simulate.CallFaults {
				calls := math.MaxInt
				for _, fault := range faults {
					for n := 1; n <= calls; n++ {
						r := simulate.Run(t, simulate.Failing(events, from, fault, part, n), simulate.Options{})
						for _, v := range r.Violations {
							t.Errorf("call %d of the %s: %s: %s: %s", n, part, fault, v.Oracle, v.Detail)
						}
						if r.Counts[fmt.Sprintf("%s: %s", fault, part)] == 0 {
							calls = n - 1
						}
					}
					if calls == 0 && part != "server" {
						t.Errorf("no call of the %s failed", part)
					}
					t.Logf("%d calls of the %s failed: %s", calls, part, fault)
				}
			}
		})
	}
}
