// Package historytest judges a run of the service by what its users saw: requests with their
// answers, and messages that arrived. It does not depend on how the service works, and imports no
// other package of this module, so that it cannot share a mistake with the service. Its method is
// that of Jepsen's checkers (jepsen.io). A request took effect at some instant between its
// beginning and its end. A result is a violation only if no choice of such instants explains it.
package historytest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Kind says what a request may change.
type Kind string

const (
	Send  Kind = "send"  // POST /v1/verifications
	Check Kind = "check" // POST /v1/verifications/{id}/check
	Look  Kind = "look"  // any request that changes nothing
	Reset Kind = "reset" // an administrator gives a recipient all places back; with a status other than 204, it may have had no effect
)

// Rule admits at most Limit sends of a recipient in any Window.
type Rule struct {
	Name   string
	Limit  int
	Window time.Duration
	// Until, if it is not zero, is when a period of the calendar ends and the next one begins. Both
	// periods are at most as long as Window, and the rule admits Limit sends in each of them.
	Until time.Time
}

// oldest returns the earliest instant whose events the rule still counts at the instant at.
func (r Rule) oldest(at time.Time) (since time.Time) {
	since = at.Add(-r.Window)
	if at.Before(r.Until) {
		return since
	}
	return later(since, r.Until)
}

// surelyOne reports whether two events between from and to must lie in the same window, if the
// clocks differ by skew.
func (r Rule) surelyOne(from, to time.Time, skew time.Duration) bool {
	if r.Until.IsZero() {
		return to.Sub(from) < r.Window-skew
	}
	return to.Before(r.Until.Add(-skew)) || !from.Before(r.Until.Add(skew))
}

// perhapsOne reports whether two events, at from and at to, may lie in the same window, if the
// second event may have happened earlier than to by this duration.
func (r Rule) perhapsOne(from, to time.Time, earlier time.Duration) bool {
	if r.Until.IsZero() {
		return to.Sub(from) < r.Window+earlier
	}
	return !from.Before(r.Until) || to.Before(r.Until.Add(earlier))
}

// Request is a request with its answer. All instants are of the client's clock.
type Request struct {
	Kind         Kind
	Recipient    string // the mailbox or number, in one spelling
	Begin, End   time.Time
	Status       int // 0: no answer came
	Header       http.Header
	Body         []byte // JSON
	Key          string // Idempotency-Key
	Verification string // the verification that a check names
	Code         string // the code that a check enters
	OwnSendsOnly bool   // the answers contain only the browser's own sends
	Stranger     bool   // may not use the reserve, so others may be admitted before its wait is over
	MayEnd       bool   // the request may end the verification that it names, or else the recipient's codes
	MayLack      bool   // the answer may lack sends, for example shortly after an outage of the limiter
}

// Message is a message that a recipient got.
type Message struct {
	Recipient, Code string
	ID              string // begins with the send's ID
	At              time.Time
	Delivered, Lost bool // as the carrier reported to the service
}

// History has the requests, answers and messages of one run, in any order.
type History struct {
	Rules    []Rule
	Requests []Request
	Messages []Message

	// Limiter says that a limiter counts in addition to the database, so that a place may be taken
	// in only one of the two.
	Limiter bool
	// Crashes are the instants at which a process died, or may have lost its leases. A message that
	// was under way then may come twice. A place that was taken in the limiter but not in the
	// database is lost until its window has passed.
	Crashes []time.Time
	// Stalls are the instants at which a stalled limiter answers again. It then takes places late,
	// for requests that the database refused meanwhile. Answers may show such a place until it is
	// given back. A send that the database admitted may count from that instant on.
	Stalls []time.Time
	// Failovers are the spans in which one limiter replaces another. The new limiter may lack
	// events that the old one has confirmed.
	Failovers [][2]time.Time
	// SetBack are the instants at which a limiter's clock was set back. Events in the clock's
	// future count from the limiter's next call on.
	SetBack []time.Time
	// Away are the spans in which a process may be unable to reach the limiter that other processes
	// reach. Then this process gives no place back in that limiter.
	Away [][2]time.Time
	// Changes are the spans in which processes change to other policies. Rules has the loosest of
	// these policies.
	Changes [][2]time.Time
	// Late is how long after its end a request without an answer may still take effect, or hold a
	// place.
	Late time.Duration
	// Slack is how much longer than the answer's wait a client may have to wait, and how late the
	// return of a place may be seen.
	Slack time.Duration
	// Skew is the greatest difference between the clocks whose instants answers contain.
	Skew time.Duration
	// Ahead is how far the service's clocks are ahead of the client's.
	Ahead time.Duration
	// Unended permits sends that are still under way at the end.
	Unended bool
	// FewerLeft permits the service to count a send that no answer shows.
	FewerLeft bool
}

// Violation is a promise that was broken.
type Violation struct {
	Promise string // OverPolicy or one of the constants after it
	Detail  string
	At      time.Time // when the answer came whose wait, figure or header is wrong; zero for other violations
}

// Allowance is a result that would break a promise, and the sentence of docs/PROMISES.md that
// allows it.
type Allowance struct {
	Violation
	Sentence string
}

// These are the promises that Judge checks.
const (
	OverPolicy = "never over the policy"
	Lost       = "never lost"
	Doubled    = "never silently doubled"
	Untrue     = "the truth about waiting"
	Costs      = "a refusal and a failure cost nothing"
	SameCode   = "a resend has the same code"
	Guessing   = "guessing does not pay"
	Surface    = "answers are consistent"
)

// These sentences of docs/PROMISES.md allow results that would otherwise break a promise.
const (
	Twice = "A message may arrive twice if a process crashes between delivering it and recording that. The row says so."
	// Allowed within History.Late.
	GivenBackLate = "If the answer to a commit was lost, its place is given back after ten seconds without a row."
	// Allowed within the longest window.
	StaysTaken = "A fault of Redis, or a crash between the gates, may keep a place taken for up to one window."
	// Allowed within History.Away.
	AwayForOne = "While one replica does not reach Redis, the others still tell the places that it gives back as taken, until its next try " +
		"succeeds: a second later, or ten for a part of a Cluster."
	// Allowed within History.Skew.
	Stepped = "If a clock steps back, a wait that was told before may be too short by at most the step."
	// Allowed at any later time.
	OldPolicies = "If you change policies, a wait that was told before follows the old ones. It may be too short, at any later time."
)

const maxTries = 5 // checks of a code

// answer has the fields of answers that the judge reads.
type answer struct {
	ID             string
	Status         any
	Type           string
	Valid          bool
	RetryAfter     int    `json:"retry_after"`
	RetryAfterMS   int64  `json:"retry_after_ms"`
	BlockedBy      string `json:"blocked_by"`
	MayHaveCounted bool   `json:"may_have_counted"`
	Send           outcome
	Sends          []outcome // the sends in the answer to a list
	Quota          *struct {
		Rules []ruleState
	}
}

// outcome is the state of a send in an answer.
type outcome struct {
	ID, Status, Reason string
	At                 time.Time // when the send was written; only in lists
}

// maxWriteDelay is the longest time between taking a send and writing its row. If the send was
// taken earlier, the database counts it from the write.
const maxWriteDelay = time.Second

func (o outcome) final() bool {
	return slices.Contains([]string{"sent", "failed", "unknown", "delivered", "undelivered"}, o.Status)
}

// ruleState is the state of a rule in an answer.
type ruleState struct {
	Name, Scope      string
	Limit, Remaining int
	Window           int // s
	RetryAfter       int `json:"retry_after"` // s
}

// wait returns the bounds of the wait in a refusal, because the service rounds the wait up to
// milliseconds or seconds.
func (a answer) wait() (least, most time.Duration) {
	if a.RetryAfterMS > 0 {
		most = time.Duration(a.RetryAfterMS) * time.Millisecond
		return most - time.Millisecond, most
	}
	most = time.Duration(a.RetryAfter) * time.Second
	return most - time.Second, most
}

// request is a Request with its parsed answer.
type request struct {
	Request
	answer
}

// accepted reports whether the answer says that a send was taken.
func (re request) accepted() bool {
	return re.Kind == Send && re.answer.Send.ID != "" && (re.Request.Status == http.StatusAccepted ||
		re.Request.Status == http.StatusBadGateway)
}

// refused reports whether a rule of the recipient refused the request.
func (re request) refused() bool {
	return re.Kind == Send && re.Request.Status == http.StatusTooManyRequests && strings.HasSuffix(re.Type, "/quota-exceeded") &&
		(re.Quota == nil || slices.ContainsFunc(re.Quota.Rules,
			func(r ruleState) bool { return r.Name == re.BlockedBy && r.Scope == "recipient" }))
}

// uncertain reports whether the send may have been taken although no answer says so.
func (re request) uncertain() bool {
	s := re.Request.Status
	return re.Kind == Send && !re.accepted() && (s == 0 || s >= 500 && (s != http.StatusServiceUnavailable || re.MayHaveCounted))
}

// send has everything that the history shows about one send.
type send struct {
	id, recipient, verification string
	from, to                    time.Time // the send was taken between these instants
	answered                    bool
	outcome                     outcome
	failed                      time.Time // when an answer first called the send failed; zero: no answer did
	messages                    []Message
}

// judge has the history, indexed by send and by recipient.
type judge struct {
	History
	requests   []request // sorted by Begin
	sends      map[string]*send
	requestsOf map[string][]request // by recipient
	sendsOf    map[string][]*send   // by recipient; sorted by the earliest instant
	found      []Violation
	judged     map[string]int
	allowed    []Allowance
	at         time.Time // when the judged answer came
}

// Judge returns the violations of a history, how many sends, answers or checks were judged by each
// promise, and the results that would break a promise without a sentence of docs/PROMISES.md that
// allows them.
func Judge(h History) (found []Violation, judged map[string]int, allowed []Allowance) {
	j := &judge{
		History: h, sends: map[string]*send{}, requestsOf: map[string][]request{}, sendsOf: map[string][]*send{},
		judged: map[string]int{},
	}
	j.read()
	j.collect()
	j.overPolicy()
	j.outcomes()
	j.codes()
	j.waits()
	j.figures()
	j.checks()
	return j.found, j.judged, j.allowed
}

// read parses the answers, and fills j.requests and j.of.
func (j *judge) read() {
	for _, r := range j.Requests {
		q := request{Request: r}
		if r.Status != 0 && len(r.Body) > 0 && json.Unmarshal(r.Body, &q.answer) != nil {
			j.recordViolation(Surface, "an answer of status %d is not JSON of the known shape", r.Status)
		}
		j.requests = append(j.requests, q)
	}
	slices.SortStableFunc(j.requests, func(a, b request) int { return a.Begin.Compare(b.Begin) })
	for _, q := range j.requests {
		j.requestsOf[q.Recipient] = append(j.requestsOf[q.Recipient], q)
	}
}

// collect finds the sends: by the answers to the requests that took them, and by messages that no
// answer announced.
func (j *judge) collect() {
	asked := map[string][]request{} // uncertain requests, by recipient
	keyed := map[string]*send{}
	firstWith := map[string]time.Time{}
	for _, q := range j.requests {
		if first, ok := firstWith[q.Key]; q.Key != "" && (!ok || q.Begin.Before(first)) {
			firstWith[q.Key] = q.Begin
		}
		switch {
		case q.uncertain():
			asked[q.Recipient] = append(asked[q.Recipient], q)
		case q.accepted():
			s := j.sends[q.answer.Send.ID]
			if s == nil {
				s = &send{id: q.answer.Send.ID, recipient: q.Recipient, verification: q.ID, from: q.Begin, to: q.End, answered: true}
				j.sends[s.id] = s
			}
			s.to = earlier(s.to, q.End)
			if q.Key == "" {
				continue
			}
			s.from = earlier(s.from, firstWith[q.Key])
			if other := keyed[q.Key]; other != nil && other != s {
				j.recordViolation(Doubled, "one Idempotency-Key gave the sends %s and %s", other.id, s.id)
			}
			keyed[q.Key] = s
		}
	}
	slices.SortStableFunc(j.Messages, func(a, b Message) int { return a.At.Compare(b.At) })
	for _, m := range j.Messages {
		id, _, _ := strings.Cut(m.ID, "@")
		id, _, _ = strings.Cut(id, ".")
		s := j.sends[id]
		if s == nil {
			s = &send{id: id, recipient: m.Recipient, to: m.At}
			if mine := asked[m.Recipient]; len(mine) == 0 || mine[0].Begin.After(m.At) {
				j.recordViolation(Doubled, "a message %s came that no request asked for", id)
				s.from = m.At
			} else { // any of these requests may have caused the message, so each explains one message
				s.from, asked[m.Recipient] = j.firstUncertain(m.Recipient), mine[1:]
			}
			j.sends[id] = s
		}
		s.messages = append(s.messages, m)
	}
	for _, q := range j.requests {
		for _, o := range append(q.Sends, q.answer.Send) {
			o.At = o.At.Add(-j.Ahead)
			if s := j.sends[o.ID]; s != nil && (o.final() || !s.outcome.final()) {
				s.outcome = o
				if o.Status == "failed" && o.Reason != "erased" && s.failed.IsZero() { // an erasure gives no place back
					s.failed = q.End
				}
				if !s.answered && o.At.After(s.from) && o.At.Before(s.to) {
					s.to = o.At
					if taken := o.At.Add(-maxWriteDelay); taken.After(s.from) {
						s.from = taken
					}
				}
			}
		}
	}
	for _, s := range j.sends {
		j.sendsOf[s.recipient] = append(j.sendsOf[s.recipient], s)
	}
	for _, sends := range j.sendsOf {
		slices.SortFunc(sends, func(a, b *send) int { return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.id, b.id)) })
	}
}

func (j *judge) firstUncertain(recipient string) time.Time {
	for _, q := range j.requestsOf[recipient] {
		if q.uncertain() {
			return q.Begin
		}
	}
	return time.Time{}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
