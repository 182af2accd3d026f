package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is what happens.
type Kind string

// What people, back ends and strangers do.
const (
	SendByBackEnd Kind = "send by back end"
	SendByBrowser Kind = "send by browser"
	Resend        Kind = "resend"       // by what the actor holds
	Repeat        Kind = "repeat"       // two requests with one Idempotency-Key, the second on another replica
	HangUp        Kind = "hang up"      // a send whose client is gone before the answer
	Check         Kind = "check"        // with the code of the newest message
	Guess         Kind = "guess"        // N wrong codes
	Cancel        Kind = "cancel"       // what the actor holds
	Look          Kind = "look"         // at the quota
	WaitAsTold    Kind = "wait as told" // ask until refused, wait exactly as long as was told, ask again
	Attack        Kind = "attack"       // a stranger's browser asks for the person's codes and guesses, N times
	Flood         Kind = "flood"        // strangers fail N checks of codes of their own, from many networks
	Reset         Kind = "reset"        // an administrator resets the person's quota
	Erase         Kind = "erase"        // an administrator erases the person
	NewPolicy     Kind = "new policy"   // another policy is put in force, at each replica a little later
)

// What goes wrong.
const (
	Flush         Kind = "flush"          // the limiter loses everything
	FailOver      Kind = "fail over"      // the limiter loses its newest N writes
	LimiterAway   Kind = "limiter away"   // for a while
	LimiterSlow   Kind = "limiter slow"   // for a while
	LimiterDeaf   Kind = "limiter deaf"   // it does what it is asked, and its answers are lost, for a while
	ClockStep     Kind = "clock step"     // of the limiter
	LogAway       Kind = "log away"       // for a while
	LogSlow       Kind = "log slow"       // for a while
	CommitFails   Kind = "commit fails"   // N commits of a replica do not happen, and that is heard
	CommitUnheard Kind = "commit unheard" // N commits of a replica happen, and their answers are lost
	CommitVague   Kind = "commit vague"   // N commits of a replica do not happen, and their answers are lost
	ServerRefuses Kind = "server refuses" // mail servers and carriers, for good, for a while
	ServerBusy    Kind = "server busy"    // for now, for a while
	ServerStalls  Kind = "server stalls"  // for a while
	ServerDrops   Kind = "server drops"   // the connection after the whole message, for a while
	Kill          Kind = "kill"           // a replica, which is started again after a while
	Freeze        Kind = "freeze"         // a replica, for a while
	HookFails     Kind = "hook fails"     // the receiver of webhooks, for a while
	HookDeaf      Kind = "hook deaf"      // it takes events, and its answers are lost, for a while
)

var (
	ordinary = []Kind{
		SendByBackEnd, SendByBackEnd, SendByBackEnd, SendByBrowser, SendByBrowser, Resend, Resend, Repeat, HangUp, Check, Check, Check, Check, Guess,
		Cancel, Look, Look, WaitAsTold,
	}
	unusual = []Kind{Attack, Flood, Reset, Erase, NewPolicy}
	faults  = []Kind{
		Flush, FailOver, LimiterAway, LimiterSlow, LimiterDeaf, ClockStep, LogAway, LogSlow, CommitFails, CommitUnheard, CommitVague,
		ServerRefuses, ServerBusy, ServerStalls, ServerDrops, Kill, Freeze, HookFails, HookDeaf,
	}
)

// committed are methods of the log whose commits may go wrong.
var committed = []string{"", "", "Begin", "Begin", "Finish", "Finish", "Postpone", "TakeOver", "Renew", "Attempt", "Approve", "Claim", "Release", "Refunded", "AppEventEnded"}

// Bounds of a world.
const (
	people    = 6 // recipients
	fewEvents = 40
	short     = 10 * time.Minute
	long      = 24 * time.Hour
)

// Plan is what happens to a world from outside: requests and faults, with their times.
type Plan struct {
	Seed     uint64
	Replicas int
	Span     time.Duration
	Failures bool // a rule on failed sends is in force
	Events   []Event
}

// Event is one thing that happens.
type Event struct {
	ID      int // within its plan; stays when others are dropped
	At      time.Duration
	Kind    Kind
	Person  int
	Replica int
	Browser bool // the actor is the person's browser, else the back end
	Wait    bool // the back end waits for the outcome
	N       int
	For     time.Duration
	Method  string // of the log, whose commits go wrong; empty: any
}

// NewPlan is the plan of a seed.
func NewPlan(seed uint64, replicas int) Plan {
	r := source(seed, "plan")
	p := Plan{Seed: seed, Replicas: replicas, Span: short, Failures: r.IntN(3) == 0}
	if replicas == 0 {
		p.Replicas = 2 + r.IntN(2)
	}
	if r.IntN(10) == 0 {
		p.Span = long
	}
	for range fewEvents + r.IntN(15) {
		p.add(r, ordinary[r.IntN(len(ordinary))])
	}
	for range r.IntN(4) {
		p.add(r, unusual[r.IntN(len(unusual))])
	}
	for range 2 + r.IntN(7) {
		p.add(r, faults[r.IntN(len(faults))])
	}
	slices.SortFunc(p.Events, func(a, b Event) int { return int(a.At - b.At) })
	return p
}

// add draws an event. Most come in bursts around few instants, so that they meet.
func (p *Plan) add(r *rand.Rand, k Kind) {
	e := Event{ID: len(p.Events), Kind: k, Person: r.IntN(people), Replica: r.IntN(p.Replicas), Browser: r.IntN(3) == 0, Wait: r.IntN(6) == 0, N: 1 + r.IntN(5)}
	e.At = time.Duration(r.Int64N(int64(p.Span)))
	if r.IntN(3) > 0 {
		burst := p.Span / 8 * time.Duration(r.IntN(8))
		e.At = burst + time.Duration(r.Int64N(int64(20*time.Second)))
		e.Person = r.IntN(2) + 2*r.IntN(2)*r.IntN(2)
	}
	e.For = []time.Duration{time.Second, 5 * time.Second, 20 * time.Second, 20 * time.Second, 3 * time.Minute}[r.IntN(5)] + time.Duration(r.Int64N(int64(time.Second)))
	switch k {
	case Attack:
		e.N = 4
	case Flood:
		e.N = 20 + r.IntN(20)
	case FailOver:
		e.N = 1 + r.IntN(12)
	case CommitFails, CommitUnheard, CommitVague:
		e.Method = committed[r.IntN(len(committed))]
	case ClockStep:
		e.For = []time.Duration{-time.Hour, -time.Minute, -time.Second, 900 * time.Millisecond, time.Minute, 2 * time.Hour}[r.IntN(6)]
	}
	p.Events = append(p.Events, e)
}

// String tells an event in a sentence.
func (e Event) String() string {
	actor := "person " + fmt.Sprint(e.Person) + "'s back end"
	if e.Browser {
		actor = "person " + fmt.Sprint(e.Person) + "'s browser"
	}
	at := fmt.Sprintf(" (replica %d)", e.Replica)
	person := fmt.Sprintf("person %d", e.Person)
	lasts := e.For.Round(time.Millisecond).String()
	switch e.Kind {
	case SendByBackEnd:
		return "a back end asks for a code for " + person + at
	case SendByBrowser:
		return person + "'s browser asks for a code" + at
	case Resend:
		return actor + " asks for the code again" + at
	case Repeat:
		return "a back end asks for a code for " + person + " twice with one Idempotency-Key" + at
	case HangUp:
		return "a back end asks for a code for " + person + " and hangs up" + at
	case Check:
		return actor + " enters the code of the newest message" + at
	case Guess:
		return fmt.Sprintf("%s enters %d wrong codes%s", actor, e.N, at)
	case Cancel:
		return actor + " cancels" + at
	case Look:
		return actor + " looks at the quota" + at
	case WaitAsTold:
		return "a back end asks for codes for " + person + " until it is refused, waits as it was told, and asks again" + at
	case Attack:
		return fmt.Sprintf("a stranger's browser asks for a code for %s and enters 5 wrong codes, %d times; then a back end asks for one, and the person enters it%s", person, e.N, at)
	case Flood:
		return fmt.Sprintf("strangers enter %d wrong codes for their own addresses, from many networks%s", e.N, at)
	case Reset:
		return "an administrator resets the quota of " + person + at
	case Erase:
		return "an administrator erases " + person + at
	case NewPolicy:
		return "another policy is put in force"
	case Flush:
		return "the limiter loses everything"
	case FailOver:
		return fmt.Sprintf("the limiter fails over and loses its newest %d writes", e.N)
	case ClockStep:
		return "the limiter's clock steps by " + lasts
	case CommitFails, CommitUnheard, CommitVague:
		what := map[Kind]string{CommitFails: "fail", CommitUnheard: "happen and are not heard", CommitVague: "do not happen, and nothing is heard"}[e.Kind]
		return fmt.Sprintf("the next %d commits of replica %d%s %s", e.N, e.Replica, map[bool]string{true: " in " + e.Method}[e.Method != ""], what)
	case Kill:
		return fmt.Sprintf("replica %d is killed, and started again after %s", e.Replica, lasts)
	case Freeze:
		return fmt.Sprintf("replica %d is frozen for %s", e.Replica, lasts)
	}
	return map[Kind]string{
		LimiterAway: "the limiter is away", LimiterSlow: "the limiter is slow", LimiterDeaf: "the limiter's answers are lost",
		LogAway: "the log is away", LogSlow: "the log is slow", ServerRefuses: "mail servers and carriers refuse for good",
		ServerBusy: "mail servers and carriers refuse for now", ServerStalls: "mail servers and carriers stall",
		ServerDrops: "mail servers and carriers drop the connection after the message", HookFails: "the receiver of webhooks fails",
		HookDeaf: "the receiver of webhooks takes events, and its answers are lost",
	}[e.Kind] + " for " + lasts
}
