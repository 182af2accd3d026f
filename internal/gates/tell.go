package gates

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/buckets"
	"sendcode/internal/fault"
	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/internal/store/gate"
	"sendcode/quota"
)

// The states of a recipient's rules in an answer are computed from the rows of the database, and
// from events that only the limiter has. These are of sends that are not written yet, or whose rows
// the database lost in a failover. If the limiter's bucket differs, it is rewritten: events are
// added, and moved to other instants. An event is taken out only if the database has its row and
// does not count it in this bucket, or if this process refunded it.

// Answer has the states of a subject's rules for the response to a request.
type Answer struct {
	quota.Decision
	History *gate.History // the database's rows at the instant of the decision; nil: the database was not asked
}

// HistoryMargin is how much further back than the longest window an Answer.History reaches, since
// package verification rounds waits by up to this duration.
const HistoryMargin = 5 * time.Minute

// databaseFacts are what the database counts for a subject at an instant.
type databaseFacts struct {
	rules    []quota.Rule                  // rules whose states follow from events
	events   map[quota.Scope][]quota.Event // on the clock of at; a scope that was not read is missing
	at       time.Time                     // the instant, on the limiter's clock
	heard    time.Time                     // the same instant on this process's clock
	history  *gate.History
	moved    bool // one of the events has another instant than the limiter's Take
	overrule bool // the limiter admitted a send that the database refused
	// The instants of sends may differ from the limiter's by up to noise, and those of failures by
	// up to failuresNoise, since they were computed from the database's clock.
	noise, failuresNoise time.Duration
}

// errClockSet says that a clock was set while an answer was computed. Nothing was counted, and a
// repetition a moment later has an answer.
var errClockSet = fault.Unavailable.Wrap(errors.New("gates: clock was set meanwhile"))

// maxPeekTries is how often Peek computes an answer at most, if a clock is set each time.
const maxPeekTries = 3

// Peek returns the state of every rule for a subject now, and counts nothing. While the limiter is
// unavailable, the database and this process answer. Errors: of the database, or of a bad request;
// fault.Unavailable if a clock was set each time.
func (g *Gates) Peek(ctx context.Context, s buckets.Subject) (told Answer, err error) {
	for range maxPeekTries {
		if told, err = g.peek(ctx, s); !errors.Is(err, errClockSet) {
			break
		}
	}
	return told, err
}

func (g *Gates) peek(ctx context.Context, s buckets.Subject) (Answer, error) {
	buckets := s.Buckets()
	d, err := g.callLimiter(ctx, quota.Request{Rules: s.Purpose.Policy.Rules, Buckets: buckets}, g.shared.Peek, false)
	if errors.Is(err, errLimiterAway) {
		told, err := g.peekWithoutLimiter(ctx, s, buckets)
		told.Decision = g.correctBackoff(ctx, s, told.Decision)
		return told, err
	}
	if err != nil {
		return Answer{Decision: d}, err
	}
	return g.answerFromRows(ctx, s, g.correctBackoff(ctx, s, d), false)
}

// AnswerRefusal returns the answer after TakeSend refused a send by d. If the answer is Allowed,
// the limiter's bucket was wrong and has been rewritten: repeat the Take. repeated: d is the
// decision of the repeated Take; the answer then has the wait of each rule by which the limiter
// still refuses. Errors: of the database; fault.Unavailable if a clock was set each time.
func (g *Gates) AnswerRefusal(ctx context.Context, s buckets.Subject, d quota.Decision, repeated bool) (Answer, error) {
	d = g.correctBackoff(ctx, s, d)
	if d.Clock == store.DatabaseClock { // TakeSend has asked the database
		return Answer{Decision: d}, nil
	}
	told, err := g.answerFromRows(ctx, s, d, true)
	if errors.Is(err, errClockSet) {
		told, err = g.Peek(ctx, s)
	}
	if err == nil && repeated && told.Allowed() {
		told.Rules = stricterStates(slices.Clone(told.Rules), d.Rules)
	}
	return told, err
}

// AnswerAdmitted returns the decision on a send that both gates admitted, with the states that
// follow from the rows that Begin read under its lock. ago is how long ago the Take was. If begun
// is a repetition, or the limiter was unavailable, it returns taken, and the caller must read the
// states.
func (g *Gates) AnswerAdmitted(ctx context.Context, s buckets.Subject, taken quota.Decision, ago time.Duration,
	begun store.BeginAnswer) quota.Decision {
	if begun.Repeated || taken.Clock == store.DatabaseClock {
		return taken
	}
	g.clocks.noteDatabase(begun.Now, g.now().Add(-ago))
	own := quota.Event{ID: string(begun.Send.ID[:]), At: begun.At}
	slow := ago > store.MaxClockSkew // then the database counts the send at a later instant
	if slow {
		own.At = own.At.Add(ago)
	}
	f := g.factsOfBegin(s, begun, append(slices.Clone(begun.History), own), taken.At, ago)
	f.moved = slow
	told, err := g.answerFromFacts(ctx, s, taken, f, false)
	if errors.Is(err, errClockSet) {
		told, err = g.Peek(ctx, s)
	}
	if err != nil { // the limiter's own states may lack events that it has lost
		told = Answer{Decision: withStates(s, taken,
			stricterStates(quota.Evaluate(f.rules, f.events, taken.At).Rules, taken.Rules))}
	}
	taken.Rules = told.Rules
	return taken
}

// RefundOverruled handles a send that the limiter admitted and the database refused: it refunds the
// send in the limiter, and returns the answer. ago is how long ago the Take was. giveBack: the
// limiter could not refund the send, so the caller must.
func (g *Gates) RefundOverruled(ctx context.Context, s buckets.Subject, id uuid.UUID, taken quota.Decision,
	ago time.Duration,
	begun store.BeginAnswer) (told Answer, giveBack bool) {
	// at the instant of Begin, since the limiter's clock may be in another calendar period
	refusing := quota.Evaluate(policy.ComputableFromDatabase(s.Purpose.Policy.Rules),
		map[quota.Scope][]quota.Event{quota.Recipient: begun.History, quota.Failures: begun.Rejected}, begun.Now).Rules
	told = Answer{Decision: withStates(s, quota.Decision{At: begun.Now, Clock: begun.NowClock, Rules: taken.Rules},
		refusing)}
	if taken.Clock == store.DatabaseClock {
		return told, true // the limiter may have counted the send before it became unavailable
	}
	told.At = taken.At // begun.Now is at most a second after the database's time
	all := s.Buckets()
	if err := g.Refund(ctx, string(id[:]), buckets.OfCountedScopes(all)...); err != nil {
		return told, true
	}
	d, err := g.callLimiter(ctx, quota.Request{Rules: s.Purpose.Policy.Rules, Buckets: all}, g.shared.Peek, false)
	if err != nil {
		return told, false
	}
	f := g.factsOfBegin(s, begun, begun.History, taken.At, ago)
	f.overrule = true
	now, err := g.answerFromFacts(ctx, s, d, f, false)
	if errors.Is(err, errClockSet) {
		now, err = g.Peek(ctx, s)
	}
	if err != nil {
		return told, false
	}
	now.Rules = stricterStates(slices.Clone(now.Rules), refusing)
	return now, false
}

// answerFromRows reads the rows of the database and runs tell with them. refused: d is a refusal of
// a Take; refusals share reads. Errors: errClockSet, or of the database.
func (g *Gates) answerFromRows(ctx context.Context, s buckets.Subject, d quota.Decision, refused bool) (Answer, error) {
	look := g.historyQuery(s)
	if look.Counting == 0 && look.Rejected == 0 {
		return Answer{Decision: d}, nil
	}
	decided := g.now() // d.At on this process's clock
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	read := g.readRows
	if refused {
		read = func(ctx context.Context, look gate.HistoryQuery) (gate.History, error) {
			return g.readForRefusal(ctx, s, look)
		}
	}
	h, err := read(ctx, look)
	if err != nil {
		return Answer{Decision: d}, err
	}
	heard := g.now()
	at := d.At.Add(heard.Sub(decided))
	f := databaseFacts{at: at, heard: heard, history: &h, events: map[quota.Scope][]quota.Event{}}
	if look.Counting > 0 {
		f.rules = quota.OfScope(s.Purpose.Policy.Rules, quota.Recipient)
		f.events[quota.Recipient] = h.Sends(s.Purpose.LongestRecipientWindow(), d.Clock, at)
		if !refused && !h.AllTakenOnClock(d.Clock, f.events[quota.Recipient]) {
			f.noise = store.MaxClockSkew
		}
	}
	if look.Rejected > 0 {
		f.rules = append(slices.Clip(f.rules), quota.OfScope(s.Purpose.Policy.Rules, quota.Failures)...)
		f.events[quota.Failures] = shiftedEvents(h.RejectedSends(look.Rejected), at.Sub(h.Now))
		if !refused {
			f.failuresNoise = store.MaxClockSkew
		}
	}
	return g.answerFromFacts(ctx, s, d, f, refused)
}

// WithHistory returns told with the database's rows at told.At. Error: of the database.
func (g *Gates) WithHistory(ctx context.Context, s buckets.Subject, told Answer) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	decided := g.now()
	h, err := g.readRows(ctx, g.historyQuery(s))
	if err == nil {
		h = h.AfterDelay(decided.Sub(g.now())) // at told.At
		told.History = &h
	}
	return told, err
}

// historyQuery returns the query for the rows of a subject's recipient that a rule counts.
func (g *Gates) historyQuery(s buckets.Subject) gate.HistoryQuery {
	look := gate.HistoryQuery{Bucket: s.DatabaseBucket()}
	if window := s.Purpose.LongestRecipientWindow(); window > 0 {
		look.Counting = window + HistoryMargin + store.MaxClockSkew // on another clock a row may be younger
	}
	if len(quota.OfScope(s.Purpose.Policy.Rules, quota.Failures)) > 0 {
		look.Rejected = g.policy.Get().FailureWindow()
	}
	return look
}

// factsOfBegin returns the facts that Begin read of a subject, with counted as its counted sends.
// taken is the instant of the Take on the limiter's clock, and ago is how long ago it was.
func (g *Gates) factsOfBegin(s buckets.Subject, begun store.BeginAnswer, counted []quota.Event, taken time.Time,
	ago time.Duration) databaseFacts {
	apart := taken.Sub(begun.At)
	return databaseFacts{
		rules: policy.ComputableFromDatabase(s.Purpose.Policy.Rules), at: taken, heard: g.now().Add(-ago),
		noise: store.MaxClockSkew, failuresNoise: store.MaxClockSkew,
		events: map[quota.Scope][]quota.Event{quota.Recipient: shiftedEvents(counted, apart),
			quota.Failures: shiftedEvents(begun.Rejected, apart)},
	}
}

// shiftedEvents returns the events, each later by the duration by.
func shiftedEvents(events []quota.Event, by time.Duration) []quota.Event {
	if by == 0 {
		return events
	}
	all := slices.Clone(events)
	for i := range all {
		all[i].At = all[i].At.Add(by)
	}
	return all
}

// answerFromFacts returns d with the states of the rules on the recipient at f.at, and rewrites the
// limiter's bucket if it differs. refused: d refuses a Take; if the database would admit the Take,
// the bucket is rewritten in any case. If the limiter fails meanwhile, the answer has the stricter
// state of each rule. Errors: errClockSet, or of the database.
func (g *Gates) answerFromFacts(ctx context.Context, s buckets.Subject, d quota.Decision, f databaseFacts, refused bool) (Answer, error) {
	states, at := quota.Evaluate(f.rules, f.events, d.At).Rules, d.At
	differ := f.differingScopes(states, statesInOrder(f.rules, d.Rules))
	if f.moved && !slices.Contains(differ, quota.Recipient) {
		differ = append(differ, quota.Recipient)
	}
	var failed error
	if only, ok := g.recentLimiterOnlyEvents(s, f, d, refused); ok {
		f.events, at = mergeEvents(f.events, only), time.Time{}
	} else if len(differ) > 0 {
		began := g.now()
		if only, failed = g.repairLimiter(ctx, s, f, d, differ, refused); failed == nil {
			f.events = mergeEvents(f.events, only)
			if f.history != nil { // time has passed since the rows were read
				took := g.now().Sub(began)
				later := f.history.AfterDelay(took)
				f.at, f.history = f.at.Add(took), &later
			}
		} else if !errors.Is(failed, quota.ErrUnavailable) {
			return Answer{Decision: d}, failed
		}
	}
	d = decisionAt(d, f.at)
	if len(differ) > 0 || !f.at.Equal(at) {
		states = quota.Evaluate(f.rules, f.events, f.at).Rules
	}
	if failed != nil {
		g.logUncompared(ctx, failed)
		states = stricterStates(states, d.Rules)
	}
	return Answer{withStates(s, d, states), f.history}, nil
}

// differingScopes returns the scopes of the rules for which the limiter counts other events than
// the database. Events are other ones if their number differs, or if the sum of their ages differs
// by more than the noise of each event. If the ages were not summed, the waits of the states are
// compared instead, except for calendar rules: the clocks may show different times until the
// period's end.
func (f databaseFacts) differingScopes(told, limited []quota.State) (scopes []quota.Scope) {
	apart := func(a, b, by time.Duration) bool { return (a - b).Abs() > by }
	for i, t := range told {
		l, by := limited[i], f.noise
		if t.Scope == quota.Failures {
			by = f.failuresNoise
		}
		differs := t.Used != l.Used
		switch {
		case t.Ages != quota.Unsummed && l.Ages != quota.Unsummed:
			differs = differs || apart(t.Ages, l.Ages, time.Duration(t.Used)*by)
		case !t.Calendar():
			differs = differs || apart(t.ResetAfter, l.ResetAfter, by) || apart(t.RetryAfter, l.RetryAfter, by)
		}
		if differs && !slices.Contains(scopes, t.Scope) {
			scopes = append(scopes, t.Scope)
		}
	}
	return scopes
}

// recentLimiterOnlyEvents returns the remembered events that only the limiter has. It returns false
// if d is no refusal, if the events were not read less than limiterOnlyCacheLife ago, if this
// process has since taken events out, or if the database with these events would admit the Take
// that d refuses.
func (g *Gates) recentLimiterOnlyEvents(s buckets.Subject, f databaseFacts, d quota.Decision,
	refused bool) (map[quota.Scope][]quota.Event, bool) {
	if !refused {
		return nil, false
	}
	known, ok := g.only.recent.get(strings.Join(bucketsInDatabase(s), "\x00"))
	if age := f.heard.Sub(known.heard); !ok || known.version != g.only.version(s) || age < 0 || age >= limiterOnlyCacheLife {
		return nil, false
	}
	return known.events, !withStates(s, d, quota.Evaluate(f.rules, mergeEvents(f.events, known.events), f.at).Rules).Allowed()
}

// mergeEvents returns the events of the database and those that only the limiter has. An event in
// both is returned once: the database may have got a remembered event since.
func mergeEvents(events, only map[quota.Scope][]quota.Event) map[quota.Scope][]quota.Event {
	merged := maps.Clone(events)
	for scope, some := range only {
		for _, e := range some {
			if !slices.ContainsFunc(events[scope], func(known quota.Event) bool { return known.ID == e.ID }) {
				merged[scope] = append(slices.Clip(merged[scope]), e)
			}
		}
	}
	return merged
}

// withStates returns d with these states in place of its states of the same rules. The states are
// in the order of the policy's rules.
func withStates(s buckets.Subject, d quota.Decision, states []quota.State) quota.Decision {
	if slices.EqualFunc(states, d.Rules, func(a, b quota.State) bool { return a.Name == b.Name }) {
		d.Rules = states
		return d
	}
	all := slices.Clone(states)
	for _, o := range d.Rules {
		if !slices.ContainsFunc(states, func(t quota.State) bool { return t.Name == o.Name }) {
			all = append(all, o)
		}
	}
	d.Rules = statesInOrder(s.Purpose.Policy.Rules, all)
	return d
}

// decisionAt returns d as of a later instant of its clock, if no event was counted since d.At.
func decisionAt(d quota.Decision, at time.Time) quota.Decision {
	passed := at.Sub(d.At)
	if passed <= 0 {
		return d
	}
	d.At, d.Rules = at, slices.Clone(d.Rules)
	for i := range d.Rules {
		r := &d.Rules[i]
		r.ResetAfter, r.RetryAfter = max(0, r.ResetAfter-passed), max(0, r.RetryAfter-passed)
	}
	return d
}

// stricterStates replaces each state by the state of the same rule in others, if the latter has a
// longer wait or, with equal waits, counts more events. It changes states in place.
func stricterStates(states, others []quota.State) []quota.State {
	for i, s := range states {
		for _, o := range others {
			if o.Name == s.Name && cmp.Or(cmp.Compare(o.RetryAfter, s.RetryAfter), cmp.Compare(o.Used, s.Used)) > 0 {
				states[i], s = o, o
			}
		}
	}
	return states
}
