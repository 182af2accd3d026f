package historytest_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	history "sendcode/internal/kit/historytest"
)

// historyRun builds a history request by request. Each request takes 10 ms.
type historyRun struct {
	history.History
	start time.Time
	sent  []time.Duration // times after start of the sends that count
}

func newRun() *historyRun {
	return &historyRun{start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), History: history.History{
		Rules: []history.Rule{{Name: "minute", Limit: 1, Window: time.Minute}, {Name: "hour", Limit: 3, Window: time.Hour}},
	}}
}

const took = 10 * time.Millisecond

func (r *historyRun) add(kind history.Kind, at time.Duration, status int, body string) *history.Request {
	r.Requests = append(r.Requests, history.Request{
		Kind: kind, Recipient: "ana", Begin: r.start.Add(at), End: r.start.Add(at + took), Status: status,
		Body: []byte(body), Header: http.Header{},
	})
	return &r.Requests[len(r.Requests)-1]
}

// quota returns the quota in an answer at this time after the start. It counts the sends in r.sent.
func (r *historyRun) quota(at time.Duration) string {
	text := ""
	for _, rule := range r.Rules {
		end := func(t time.Duration) time.Duration { // returns the end of a send's window
			if until := rule.Until.Sub(r.start); !rule.Until.IsZero() && t < until {
				return until
			}
			return t + rule.Window
		}
		inside := slices.DeleteFunc(slices.Clone(r.sent), func(t time.Duration) bool { return at >= end(t) })
		wait := time.Duration(0)
		if n := len(inside); n >= rule.Limit {
			wait = end(inside[n-rule.Limit]) - at
		}
		text += fmt.Sprintf(`{"name":%q,"scope":"recipient","limit":%d,"remaining":%d,"window":%d,"retry_after":%d},`,
			rule.Name, rule.Limit, max(0, rule.Limit-len(inside)), int(rule.Window.Seconds()),
			int((wait+time.Second-1)/time.Second))
	}
	return `{"rules":[` + text[:len(text)-1] + `]}`
}

// send adds an admitted send, with its message a second later.
func (r *historyRun) send(n int, at time.Duration) *history.Request {
	r.sent = append(r.sent, at)
	r.mail(n, at+time.Second, "111111")
	return r.add(history.Send, at, 202,
		fmt.Sprintf(`{"id":"v1","status":"pending","send":{"id":"s%d","status":"queued"},"quota":%s}`, n, r.quota(at)))
}

func (r *historyRun) mail(n int, at time.Duration, code string) {
	r.Messages = append(r.Messages, history.Message{Recipient: "ana", Code: code, ID: fmt.Sprintf("s%d@localhost", n), At: r.start.Add(at)})
}

func (r *historyRun) refuse(at, wait time.Duration) *history.Request {
	seconds := int((wait + time.Second - 1) / time.Second)
	q := r.add(history.Send, at, 429, fmt.Sprintf(
		`{"type":"https://codes.example/problems/quota-exceeded","blocked_by":"minute","retry_after":%d,"retry_after_ms":%d,"quota":%s}`,
		seconds, wait.Milliseconds(), r.quota(at)))
	q.Header.Set("Retry-After", fmt.Sprint(seconds))
	return q
}

func (r *historyRun) look(at time.Duration) *history.Request {
	return r.add(history.Look, at, 200, `{"quota":`+r.quota(at)+`}`)
}

func (r *historyRun) check(at time.Duration, code, status string, valid bool) {
	q := r.add(history.Check, at, 200, fmt.Sprintf(`{"id":"v1","status":%q,"valid":%t}`, status, valid))
	q.Verification, q.Code = "v1", code
}

// outcomes adds an answer with a list of sends that have these states.
func (r *historyRun) outcomes(at time.Duration, sends ...string) {
	text := ""
	for i, status := range sends {
		text += fmt.Sprintf(`{"id":"s%d","status":%q,"reason":"rejected"},`, i+1, status)
	}
	r.add(history.Look, at, 200, `{"sends":[`+text[:max(0, len(text)-1)]+`]}`)
}

// ordinary returns a correct run: four sends, refusals between them, a failed check and a correct
// check.
func ordinary() *historyRun {
	r := newRun()
	r.send(1, 0)
	r.refuse(30*time.Second, 30*time.Second)
	r.look(40 * time.Second)
	r.send(2, time.Minute)
	r.check(70*time.Second, "222222", "pending", false)
	r.send(3, 3*time.Minute)
	r.refuse(5*time.Minute, 55*time.Minute)
	r.check(6*time.Minute, "111111", "approved", true)
	r.send(4, time.Hour)
	r.outcomes(2*time.Hour, "sent", "sent", "sent", "sent")
	return r
}

// stalled returns an ordinary run whose limiter answers again half a second after the last send.
func stalled() *historyRun {
	r := ordinary()
	r.Limiter, r.Stalls = true, []time.Time{r.start.Add(time.Hour + 500*time.Millisecond)}
	return r
}

// unanswered returns an ordinary run with two more sends. The first one's answer was lost, and its
// row was written some time after the request. The second one came a minute after that request.
func unanswered(written time.Duration) *historyRun {
	r := ordinary()
	lost := 2 * time.Hour
	r.add(history.Send, lost, 0, "").End = r.start.Add(lost + 2*time.Second)
	r.mail(9, lost+3*time.Second, "333333")
	r.send(5, lost+time.Minute)
	r.add(history.Look, 3*time.Hour, 200, fmt.Sprintf(`{"sends":[{"id":"s9","status":"sent","at":%q},{"id":"s5","status":"sent"}]}`,
		r.start.Add(lost+written).Format(time.RFC3339Nano)))
	return r
}

// lostPlace adds a send that the database did not take and whose process dies, an answer that does
// not count this send, and a refusal after that answer. more is the wait of the refusal.
func lostPlace(r *historyRun, more time.Duration) {
	r.Limiter, r.Crashes = true, []time.Time{r.start.Add(2*time.Hour + time.Second)}
	r.add(history.Send, 2*time.Hour, 503, "{}")
	r.look(2*time.Hour + time.Second)
	r.refuse(2*time.Hour+2*time.Second, more)
}

func TestJudgePassesCorrectHistories(t *testing.T) {
	for name, c := range map[string]struct {
		from func() *historyRun
		more func(r *historyRun)
	}{
		"ordinary": {ordinary, func(*historyRun) {}},
		"a person gets the place that a stranger leaves": {ordinary, func(r *historyRun) {
			r.refuse(time.Hour+5*time.Second, 2*time.Hour).Stranger = true
			r.send(5, 2*time.Hour+time.Minute)
		}},
		"a failure gives its place back": {newRun, func(r *historyRun) {
			r.send(1, 0)
			r.Messages, r.sent = nil, nil
			r.outcomes(10*time.Second, "failed")
			r.look(20 * time.Second)
			r.send(2, 30*time.Second)
		}},
		"a send whose answer is lost is written late": {ordinary, func(r *historyRun) { *r = *unanswered(900 * time.Millisecond) }},
		"an unknown outcome, a repetition, a reset": {newRun, func(r *historyRun) {
			r.send(1, 0).Key = "a"
			r.Messages = nil
			r.Requests[0].Header.Set("Idempotent-Replayed", "false")
			again := r.Requests[0]
			again.Begin, again.End = again.Begin.Add(time.Second), again.End.Add(time.Second)
			r.Requests = append(r.Requests, again)
			r.add(history.Reset, 20*time.Second, 204, "")
			r.sent = nil
			r.look(25 * time.Second)
			r.send(2, 30*time.Second)
			r.outcomes(time.Minute, "unknown", "sent")
		}},
		"a reset that a failover lost": {ordinary, func(r *historyRun) {
			r.add(history.Reset, 90*time.Minute, 204, "")
			r.look(91 * time.Minute)
			r.Failovers = [][2]time.Time{{r.start.Add(90*time.Minute - time.Second), r.start.Add(90*time.Minute + time.Second)}}
		}},
		"a place of a process that died, and one before a reset in the database alone": {ordinary, func(r *historyRun) {
			lostPlace(r, 50*time.Second)
			r.send(5, 3*time.Hour)
			r.sent = nil
			r.add(history.Reset, 3*time.Hour+time.Second, 503, "")
			r.look(3*time.Hour + 2*time.Second)
			r.refuse(3*time.Hour+3*time.Second, 50*time.Second)
		}},
	} {
		r := c.from()
		c.more(r)
		if found, _, _ := history.Judge(r.History); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// Each allowance quotes a sentence of PROMISES.md, is counted, and ends at its bound.
func TestEachAllowanceIsASentence(t *testing.T) {
	page, err := os.ReadFile("../../../docs/PROMISES.md")
	if err != nil {
		t.Fatal(err)
	}
	promises := strings.Join(strings.Fields(strings.ReplaceAll(string(page), "**", "")), " ")
	for sentence, c := range map[string]struct {
		from   func() *historyRun
		change func(r *historyRun, beyond time.Duration)
	}{
		history.Twice: {ordinary, func(r *historyRun, beyond time.Duration) {
			r.mail(2, 2*time.Minute, "111111")
			r.Crashes = []time.Time{r.start.Add(90*time.Second + beyond)}
		}},
		history.StaysTaken: {stalled, func(r *historyRun, beyond time.Duration) {
			r.refuse(time.Hour+60200*time.Millisecond, 300*time.Millisecond+min(beyond, time.Second))
		}},
		history.AwayForOne: {ordinary, func(r *historyRun, beyond time.Duration) {
			lostPlace(r, 50*time.Second)
			r.Crashes = nil
			at := r.start.Add(2*time.Hour - time.Second)
			r.Away = [][2]time.Time{{at, at.Add(max(0, 4*time.Second-beyond))}}
		}},
		history.GivenBackLate: {ordinary, func(r *historyRun, beyond time.Duration) {
			r.Late = 10 * time.Second
			r.add(history.Send, 2*time.Hour, 503, "{}")
			r.look(2*time.Hour + 9*time.Second + beyond)
			r.refuse(2*time.Hour+10*time.Second+beyond, time.Second)
		}},
		history.Stepped: {ordinary, func(r *historyRun, beyond time.Duration) {
			r.Skew = time.Second
			r.send(5, 2*time.Hour-30*time.Second)
			r.refuse(2*time.Hour, 30*time.Second)
			r.refuse(2*time.Hour+30100*time.Millisecond, 500*time.Millisecond+beyond)
		}},
		history.OldPolicies: {ordinary, func(r *historyRun, beyond time.Duration) {
			r.send(5, 2*time.Hour-30*time.Second)
			r.refuse(2*time.Hour, 30*time.Second)
			r.refuse(2*time.Hour+31*time.Second, time.Second)
			at := r.start.Add(2*time.Hour + 20*time.Second + beyond)
			r.Changes = [][2]time.Time{{at, at.Add(time.Second)}}
		}},
	} {
		if !strings.Contains(promises, sentence) {
			t.Errorf("PROMISES.md does not say %q", sentence)
		}
		for _, beyond := range []time.Duration{0, time.Minute} {
			r := c.from()
			c.change(r, beyond)
			found, _, allowed := history.Judge(r.History)
			byIt := slices.ContainsFunc(allowed, func(a history.Allowance) bool { return a.Sentence == sentence && a.Detail != "" })
			if within := beyond == 0; within != (len(found) == 0) || within != byIt {
				t.Errorf("%s, %v beyond its bound: allowed %v; found were %v", sentence, beyond, allowed, found)
			}
		}
	}
}

// With a rule of a calendar period, sends before and after its end count separately, and the wait
// ends with the period.
func TestJudgePeriods(t *testing.T) {
	const end = 40 * time.Second
	for promise, change := range map[string]func(*historyRun){
		"":                 func(*historyRun) {},
		history.OverPolicy: func(r *historyRun) { r.send(3, 100*time.Second) },
		history.Costs: func(r *historyRun) {
			r.Requests, r.Messages = r.Requests[:2], r.Messages[:1]
			r.Rules[0].Until = r.start.Add(2 * end) // the next look counts as if the period ended only at this time
			r.look(end + time.Second)
			r.Rules[0].Until = r.start.Add(end)
		},
	} {
		r := newRun()
		r.Rules = []history.Rule{{Name: "minute", Limit: 1, Window: 31 * 24 * time.Hour, Until: r.start.Add(end)}}
		r.send(1, 0)
		r.refuse(10*time.Second, end-10*time.Second)
		r.send(2, end)
		change(r)
		found, _, _ := history.Judge(r.History)
		if len(found) > 0 != (promise != "") || promise != "" && found[0].Promise != promise {
			t.Errorf("%q: found %v", promise, found)
		}
	}
}

// A crash in the same month excuses no wrong figure of other rules whose windows have long ended.
func TestJudgeMonthExcusesNoOtherRule(t *testing.T) {
	r := ordinary()
	r.Rules = append(r.Rules, history.Rule{Name: "month", Limit: 100, Window: 31 * 24 * time.Hour, Until: r.start.Add(24 * time.Hour)})
	r.Limiter, r.Crashes = true, []time.Time{r.start.Add(-24 * time.Hour)}
	r.sent = append(r.sent, 2*time.Hour) // a send without a request
	r.look(2*time.Hour + time.Second)
	if found, _, _ := history.Judge(r.History); len(found) != 2 || found[0].Promise != history.Costs {
		t.Errorf("of the minute and the hour: %v", found)
	}
}

func TestJudgeFindsEachViolation(t *testing.T) {
	for name, c := range map[string]struct {
		promise string
		change  func(r *historyRun)
	}{
		"a send too early": {history.OverPolicy, func(r *historyRun) { r.send(5, 61*time.Minute-time.Second) }},
		"a message too many, unannounced": {history.OverPolicy, func(r *historyRun) {
			r.add(history.Send, time.Hour+3*time.Second, 0, "")
			r.mail(9, time.Hour+5*time.Second, "333333")
		}},
		"a send after one whose answer is lost": {history.OverPolicy, func(r *historyRun) { *r = *unanswered(1100 * time.Millisecond) }},
		"no message":                            {history.Lost, func(r *historyRun) { r.Messages = r.Messages[1:] }},
		"no message and no outcome": {history.Lost, func(r *historyRun) {
			r.send(5, 2*time.Hour)
			r.Messages = r.Messages[:4]
		}},
		"called failed, and it came, also after a crash": {history.Lost, func(r *historyRun) {
			r.outcomes(3*time.Hour, "sent", "failed")
			r.Crashes = []time.Time{r.start.Add(time.Second)}
		}},
		"called delivered without a receipt":   {history.Lost, func(r *historyRun) { r.outcomes(3*time.Hour, "sent", "delivered") }},
		"called undelivered without a receipt": {history.Lost, func(r *historyRun) { r.outcomes(3*time.Hour, "sent", "undelivered") }},
		"a receipt that is forgotten":          {history.Lost, func(r *historyRun) { r.Messages[1].Lost = true }},
		"a delivery that is forgotten": {history.Lost, func(r *historyRun) {
			r.Messages[1].Lost, r.Messages[1].Delivered = true, true
			r.outcomes(3*time.Hour, "sent", "undelivered")
		}},
		"a double that has another code": {history.Doubled, func(r *historyRun) {
			r.Crashes = []time.Time{r.start.Add(time.Second)}
			r.mail(1, 3*time.Second, "222222")
		}},
		"a double with another HMAC in its Message-ID": {history.Doubled, func(r *historyRun) {
			r.mail(2, 2*time.Minute, "111111")
			r.Crashes = []time.Time{r.start.Add(90 * time.Second)}
			r.Messages[1].ID, r.Messages[4].ID = "s2.ab@localhost", "s2.cd@localhost"
		}},
		"a message that no request asked": {history.Doubled, func(r *historyRun) { r.mail(9, 2*time.Hour, "333333") }},
		"one key, two sends": {history.Doubled, func(r *historyRun) {
			r.send(5, 3*time.Hour).Key = "k"
			r.send(6, 5*time.Hour).Key = "k"
		}},
		"a place of a process that died, for longer": {history.Untrue, func(r *historyRun) { lostPlace(r, 59*time.Second) }},
		"admitted before the wait was over": {history.Untrue, func(r *historyRun) {
			r.refuse(time.Hour+5*time.Second, 2*time.Hour)
			r.send(5, 2*time.Hour+time.Minute)
		}},
		"admitted before the wait was over, long after a 503 and a failure": {history.Untrue, func(r *historyRun) {
			r.send(5, 2*time.Hour)
			r.outcomes(2*time.Hour+time.Minute, "sent", "sent", "sent", "sent", "failed")
			r.Messages, r.sent = r.Messages[:4], r.sent[:4]
			r.add(history.Send, 2*time.Hour+2*time.Minute, 503, "{}")
			r.refuse(4*time.Hour, 2*time.Hour)
			r.send(6, 5*time.Hour)
		}},
		"a place that stays taken where no process reaches a limiter": {history.Costs, func(r *historyRun) {
			lostPlace(r, 50*time.Second)
			r.Limiter, r.Crashes = false, nil
			r.Away = [][2]time.Time{{r.start.Add(2*time.Hour - time.Second), r.start.Add(2*time.Hour + time.Minute)}}
			r.sent = append(r.sent, 2*time.Hour)
			r.look(2*time.Hour + 3*time.Second)
		}},
		"more left than is true": {
			history.Untrue,
			func(r *historyRun) { r.sent = slices.Delete(r.sent, 1, 2); r.look(time.Hour + 30*time.Second) },
		},
		"a reset that stays": {history.Costs, func(r *historyRun) {
			r.add(history.Reset, 90*time.Minute, 204, "")
			r.look(91 * time.Minute)
		}},
		"a failure that costs": {history.Costs, func(r *historyRun) {
			r.send(5, 5*time.Hour)
			r.Messages = r.Messages[:4]
			r.outcomes(5*time.Hour+time.Minute, "sent", "sent", "sent", "sent", "failed")
			r.look(5*time.Hour + 2*time.Minute)
		}},
		"a resend with another code": {history.SameCode, func(r *historyRun) { r.Messages[1].Code = "222222" }},
		"approved twice":             {history.Guessing, func(r *historyRun) { r.check(7*time.Minute, "111111", "approved", true) }},
		"a wrong code approved": {history.Guessing, func(r *historyRun) {
			r.Requests = slices.DeleteFunc(r.Requests, func(q history.Request) bool { return q.Kind == history.Check })
			r.check(7*time.Minute, "222222", "approved", true)
		}},
		"the right code called wrong": {history.Guessing, func(r *historyRun) { r.check(71*time.Second, "111111", "pending", false) }},
		"the right code ended":        {history.Guessing, func(r *historyRun) { r.check(71*time.Second, "111111", "canceled", false) }},
		"a sixth try": {history.Guessing, func(r *historyRun) {
			for i := range 4 {
				r.check(80*time.Second+time.Duration(i)*time.Second, "222222", "pending", false)
			}
		}},
		"approved after the last try": {
			history.Guessing,
			func(r *historyRun) { r.check(80*time.Second, "222222", "max_attempts_reached", false) },
		},
		"a header of its own": {history.Surface, func(r *historyRun) { r.Requests[1].Header.Set("Retry-After", "29") }},
		"not JSON":            {history.Surface, func(r *historyRun) { r.look(time.Second).Body = []byte("<html>") }},
	} {
		t.Run(name, func(t *testing.T) {
			r := ordinary()
			c.change(r)
			found, judged, _ := history.Judge(r.History)
			if !slices.ContainsFunc(found, func(v history.Violation) bool { return v.Promise == c.promise }) ||
				c.promise != history.Surface && judged[c.promise] == 0 {
				t.Errorf("not found; found were %v", found)
			}
		})
	}
}
