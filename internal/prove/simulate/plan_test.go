package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is a kind of event, as a sentence. {at} and {replica} are the event's replica, {for} is its
// duration, and {n} its N.
type Kind string

// These are actions of people, back ends, strangers and operators.
const (
	SendByBackEnd Kind = "a back end asks for a code for {person}{at}"
	SendByBrowser Kind = "{person}'s browser asks for a code{at}"
	Resend        Kind = "{actor} asks for the code again{at}"
	Repeat        Kind = "a back end asks for a code for {person} twice with one Idempotency-Key{at}"
	HangUp        Kind = "a back end asks for a code for {person} and hangs up{at}"
	Check         Kind = "{actor} enters the code of the newest message{at}"
	Guess         Kind = "{actor} enters {n} wrong codes{at}"
	Cancel        Kind = "{actor} cancels{at}"
	Look          Kind = "{actor} looks at the quota{at}"
	WaitAsTold    Kind = "a back end asks for codes for {person} until it is refused, waits as it was told, and asks again{at}"
	Attack        Kind = "a stranger asks for {person}'s code and enters 5 wrong ones, {n} times; then the person needs a code{at}"
	Flood         Kind = "strangers enter {n} wrong codes for their own addresses, from many networks{at}"
	Exhaust       Kind = "strangers from many networks ask for a recipient's codes while they are sent; then its back end asks"
	Reset         Kind = "an administrator resets the quota of {person}{at}"
	Erase         Kind = "an administrator erases {person}{at}"
	NewPolicy     Kind = "another policy is put in force"
	Remap         Kind = "the purpose login is mapped to another policy for {for}"
	OtherFile     Kind = "replica {replica} reads a file for {for} in which the purpose login has another policy"
)

// These are faults.
const (
	Flush             Kind = "the limiter loses everything"
	FailOver          Kind = "the limiter fails over and loses its newest {n} writes"
	LimiterAway       Kind = "the limiter is away for {for}"
	LimiterSlow       Kind = "the limiter is slow for {for}"
	LimiterDeaf       Kind = "the limiter's answers are lost for {for}"
	LimiterStalls     Kind = "the limiter stalls for {for}"
	ClockStep         Kind = "the limiter's clock steps by {for}"
	ClockRight        Kind = "the limiter's clock is right again"
	OtherClock        Kind = "the limiter fails over to a replica whose clock is {for} ahead, and loses its newest {n} writes"
	DatabaseClockStep Kind = "the database's clock steps by {for}"
	DatabaseAway      Kind = "the database is away for {for}"
	DatabaseSlow      Kind = "the database is slow for {for}"
	CommitFails       Kind = "the next {n} commits of replica {replica}{method} fail"
	CommitUnheard     Kind = "the next {n} commits of replica {replica}{method} happen, and their answers are lost"
	CommitVague       Kind = "the next {n} commits of replica {replica}{method} do not happen, and their answers are lost"
	CallFails         Kind = "call {n} from now{method} fails"
	CallUnheard       Kind = "call {n} from now{method} happens, and its answer is lost"
	CallVague         Kind = "call {n} from now{method} does not happen, and its answer is lost"
	ServerRefuses     Kind = "mail servers and carriers refuse for good for {for}"
	ServerBusy        Kind = "mail servers and carriers refuse for now for {for}"
	ServerStalls      Kind = "mail servers and carriers stall for {for}"
	ServerDrops       Kind = "mail servers and carriers drop the connection after the message for {for}"
	Kill              Kind = "replica {replica} is killed, and started again after {for}"
	Freeze            Kind = "replica {replica} is frozen for {for}"
	HookFails         Kind = "the receiver of webhooks fails for {for}"
	HookDeaf          Kind = "the receiver of webhooks takes events, and its answers are lost, for {for}"
)

var (
	ordinary = []Kind{
		SendByBackEnd, SendByBackEnd, SendByBackEnd, SendByBrowser, SendByBrowser, Resend, Resend, Repeat, HangUp,
		Check, Check, Check, Check, Guess,
		Cancel, Look, Look, WaitAsTold,
	}
	unusual = []Kind{Attack, Exhaust, Flood, Reset, Erase, NewPolicy, Remap, OtherFile}
	faults  = []Kind{
		Flush, FailOver, LimiterAway, LimiterSlow, LimiterDeaf, LimiterStalls, ClockStep, ClockStep, ClockRight,
		OtherClock, DatabaseClockStep, DatabaseAway, DatabaseSlow, CommitFails, CommitUnheard, CommitVague,
		CallFails, CallUnheard, CallVague,
		ServerRefuses, ServerBusy, ServerStalls, ServerDrops, Kill, Freeze, HookFails, HookDeaf,
	}
)

// ofLimiter are the faults that don't occur in a world without Redis, where each replica has a
// limiter of its own.
var ofLimiter = []Kind{Flush, FailOver, LimiterAway, LimiterSlow, LimiterDeaf, LimiterStalls, ClockStep, ClockRight, OtherClock}

// committed has methods of the database whose commits may fail, some of them twice, so that they
// fail more often. An empty name stands for the next commit of any method.
var committed = []string{
	"", "", "Begin", "Begin", "Finish", "Finish", "Postpone", "TakeOver", "RenewLeases", "Check",
	"Check", "ClaimIdempotencyKey", "ReleaseIdempotencyKey", "ConfirmRefund", "EndAppEventAttempt",
}

// CallFaults are the ways in which a single call fails, by the part that is called: a statement or
// a commit of the database, the limiter, a mail server or carrier.
var CallFaults = map[string][]Kind{
	"database": {CallFails}, "commit": {CallFails, CallUnheard, CallVague}, "limiter": {CallFails, CallUnheard},
	"server": {CallFails, CallUnheard},
}

// Failing returns a plan in which one call fails: the nth of the calls that the part gets later
// than from. Afterwards a caller waits as an answer says.
func Failing(events []Event, from time.Duration, fault Kind, part string, n int) Plan {
	p := Plan{Seed: 1, Replicas: 1, Span: events[len(events)-1].At + 35*time.Second}
	p.Events = slices.Concat([]Event{{At: from, Kind: fault, Method: part, N: n}}, events,
		[]Event{{Kind: WaitAsTold, At: p.Span + time.Minute}})
	slices.SortStableFunc(p.Events, func(a, b Event) int { return int(a.At - b.At) })
	for i := range p.Events {
		p.Events[i].ID = i
	}
	return p
}

// A world has this many people, at least this many ordinary events, and one of these spans.
const (
	people    = 6
	fewEvents = 40
	short     = 10 * time.Minute
	long      = 24 * time.Hour
)

// Plan has the requests and faults of a world, with their times.
type Plan struct {
	Seed     uint64
	Replicas int
	Span     time.Duration
	Failures bool // a rule on failed sends is in force
	Split    bool // at first, each purpose has a policy of its own
	// People use two spellings of their mailbox. At each start of a replica, it is random whether
	// the two count as one mailbox there.
	Folding      bool
	WithoutRedis bool
	// A month ends in the middle of the plan, and a rule of the calendar month is in force.
	MonthEnds bool
	Events    []Event
}

// Event is a request, an operator's action or a fault.
type Event struct {
	ID      int // unique within its plan; stays the same when Shrink removes other events
	At      time.Duration
	Kind    Kind
	Person  int
	Replica int
	Browser bool // the actor is the person's browser, otherwise the back end
	Wait    bool // the back end waits for the outcome
	N       int
	For     time.Duration
	Method  string // the method of the database whose commits fail (empty: any), or the part of which a call fails
}

// NewPlan returns the plan of a seed. If replicas is 0, the seed chooses two or three.
func NewPlan(seed uint64, replicas int) Plan {
	r := source(seed, "plan")
	p := Plan{Seed: seed, Replicas: replicas, Span: short, Failures: r.IntN(3) == 0, Split: r.IntN(3) == 0}
	if replicas == 0 {
		p.Replicas = 2 + r.IntN(2)
	}
	if r.IntN(10) == 0 {
		p.Span = long
	}
	for range fewEvents + r.IntN(15) {
		p.add(r, ordinary[r.IntN(len(ordinary))])
	}
	for range r.IntN(6) {
		p.add(r, unusual[r.IntN(len(unusual))])
	}
	if r.IntN(4) == 0 { // strangers attack often
		for range 2 + r.IntN(4) {
			p.add(r, []Kind{Attack, Exhaust}[r.IntN(2)])
		}
	}
	for range 2 + r.IntN(7) {
		p.add(r, faults[r.IntN(len(faults))])
	}
	p.Folding, p.MonthEnds = r.IntN(5) == 0, source(seed, "month").IntN(5) == 0
	p.WithoutRedis = r.IntN(3) == 0
	if p.WithoutRedis { // each replica must see the refunds of the others
		for range 4 + r.IntN(8) {
			p.add(r, []Kind{Reset, ServerRefuses, Look, SendByBackEnd}[r.IntN(4)])
		}
		p.Events = slices.DeleteFunc(p.Events, func(e Event) bool { return slices.Contains(ofLimiter, e.Kind) })
	}
	slices.SortFunc(p.Events, func(a, b Event) int { return int(a.At - b.At) })
	return p
}

// add adds a random event. Two of three events come in one of eight bursts, so that events
// coincide.
func (p *Plan) add(r *rand.Rand, k Kind) {
	e := Event{
		ID: len(p.Events), Kind: k, Person: r.IntN(people), Replica: r.IntN(p.Replicas), Browser: r.IntN(3) == 0,
		Wait: r.IntN(6) == 0, N: 1 + r.IntN(5),
	}
	e.At = time.Duration(r.Int64N(int64(p.Span)))
	if r.IntN(3) > 0 {
		burst := p.Span / 8 * time.Duration(r.IntN(8))
		e.At = burst + time.Duration(r.Int64N(int64(20*time.Second)))
		e.Person = r.IntN(2) + 2*r.IntN(2)*r.IntN(2)
	}
	e.For = []time.Duration{
		time.Second, 5 * time.Second, 20 * time.Second, 20 * time.Second,
		3 * time.Minute,
	}[r.IntN(5)] + time.Duration(r.Int64N(int64(time.Second)))
	switch k {
	case Attack:
		e.N = 4
	case Flood:
		e.N = 20 + r.IntN(20)
	case FailOver:
		e.N = 1 + r.IntN(12)
	case CommitFails, CommitUnheard, CommitVague:
		e.Method = committed[r.IntN(len(committed))]
	case CallVague:
		e.Method, e.N = "commit", 1+r.IntN(50)
	case CallFails, CallUnheard:
		e.Method, e.N = []string{"commit", "limiter", "server", "database"}[r.IntN(len(CallFaults))], 1+r.IntN(50)
	case ClockStep, OtherClock:
		e.For = []time.Duration{
			-25 * time.Hour, -time.Hour, -5 * time.Minute, -time.Minute, -time.Second,
			900 * time.Millisecond, time.Minute, 2 * time.Hour, 25 * time.Hour,
		}[r.IntN(9)]
	case DatabaseClockStep:
		e.For = []time.Duration{-5 * time.Minute, -time.Minute, -time.Second, time.Second, time.Minute, time.Hour}[r.IntN(6)]
	}
	p.Events = append(p.Events, e)
}

// String returns the event as a sentence.
func (e Event) String() string {
	person, actor, method := fmt.Sprint("person ", e.Person), "back end", ""
	if e.Browser {
		actor = "browser"
	}
	if e.Method != "" {
		method = " in " + e.Method
	}
	return strings.NewReplacer("{person}", person, "{actor}", person+"'s "+actor, "{at}", fmt.Sprintf(" (replica %d)", e.Replica),
		"{n}", fmt.Sprint(e.N), "{for}", e.For.Round(time.Millisecond).String(), "{replica}", fmt.Sprint(e.Replica), "{method}", method,
	).Replace(string(e.Kind))
}
