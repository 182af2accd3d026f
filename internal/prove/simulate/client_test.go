package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/verify/verification"
	"sendcode/quota/quotahttp"
)

// person is a recipient with the state of the person and of the person's back end.
type person struct {
	index            int
	channel          recipient.Channel
	to               string
	verifications    map[actor]string // the ID of each actor's verification
	known            string           // the token that the person's browser got for a right code
	requestedAsKnown bool             // the browser requested its verification with a token
	last             *request         // the last look at the quota
	changes          int              // how many requests that may change the quota have begun or ended
}

func newPerson(i int) *person {
	p := &person{index: i, channel: recipient.Email, to: fmt.Sprintf("canary.person%d@example.com", i), verifications: map[actor]string{}}
	if i%3 == 2 {
		p.channel, p.to = recipient.SMS, fmt.Sprintf("+49151234567%02d", i)
	}
	return p
}

// actor names who makes a request.
type actor string

// The actors are a back end that knows the person, the person's browser, and strangers, in a
// browser and at a back end's form.
const (
	backEnd  actor = "back end"
	browser  actor = "browser"
	stranger actor = "stranger"
	form     actor = "form"
)

// hasSecretKey reports whether the requests of a have the secret key.
func (a actor) hasSecretKey() bool { return a == backEnd || a == form }

func oneOfStrangers(n int) actor {
	if n%2 == 0 {
		return stranger
	}
	return form
}

func (e Event) actor() actor {
	if e.Browser {
		return browser
	}
	return backEnd
}

const (
	sending   = "a send"
	checking  = "a check"
	looking   = "a look"
	canceling = "a cancel"
)

type request struct {
	event        Event
	kind         string // sending, checking, looking or canceling
	by           actor
	person       *person
	began, ended time.Time
	answered     bool
	anyTrouble   bool // there was trouble while it was under way
	known        bool // the browser sent a token, or names a verification that was requested with a token
	status       int
	body         body
	to, key      string
	counted      recipient.Hash // the hash under which the replica counts the recipient
	header       http.Header
	raw          []byte
	code         string // the code that was entered
	right        bool   // the code is that of the verification
	verification string // the ID that the request names
}

// body has the fields of answers that oracles read.
type body struct {
	Type           string                      `json:"type"`
	ID             string                      `json:"id"`
	Status         any                         `json:"status"`
	Valid          bool                        `json:"valid"`
	Known          string                      `json:"known"`
	RetryAfterMS   int                         `json:"retry_after_ms"`
	RetryAfter     int                         `json:"retry_after"`
	BlockedBy      string                      `json:"blocked_by"`
	MayHaveCounted bool                        `json:"may_have_counted"`
	Send           struct{ ID, Status string } `json:"send"`
	Quota          *quotahttp.Quota            `json:"quota"`
	replayed       bool
}

func (b body) problem() string { return path.Base(b.Type) }

// outgoing is a request that a client makes.
type outgoing struct {
	method, path string
	body         map[string]any
	header       map[string]string
	ip           string
	hangUp       time.Duration // the client hangs up after this time; 0: never
}

// do makes a request, and records it with its answer.
func (w *world) do(e Event, kind string, by actor, p *person, o outgoing) *request {
	q := &request{event: e, kind: kind, by: by, person: p, began: time.Now(), to: p.to, key: o.header["Idempotency-Key"]}
	r := w.replica(e.Replica)
	if to, ok := o.body["to"].(string); ok {
		q.to = to
	}
	q.counted = r.vault.Hashes(must(verification.ParseRecipient(string(p.channel), q.to, ""))).Counted
	label := fmt.Sprintf("event %d %s %d", e.ID, by, w.nth(fmt.Sprint("request of ", e.ID)))
	ctx, cancel := context.WithCancel(labelled(context.Background(), label))
	defer cancel()
	if o.hangUp > 0 {
		defer time.AfterFunc(o.hangUp, cancel).Stop()
	}
	var text []byte
	if o.body != nil {
		text, _ = json.Marshal(o.body)
	}
	in := httptest.NewRequestWithContext(ctx, o.method, o.path, strings.NewReader(string(text)))
	in.Header.Set("Content-Type", "application/json")
	in.RemoteAddr = o.ip + ":40000"
	in.Header.Set("Authorization", "Bearer "+secretKey)
	if !by.hasSecretKey() {
		in.Header.Set("Authorization", "Bearer "+browserKey)
		in.Header.Set("Origin", origin)
	}
	for name, value := range o.header {
		in.Header.Set(name, value)
	}
	troubled, failed := w.troubled(r), w.failures()
	out := httptest.NewRecorder()
	if !r.isDead() {
		q.answered = r.serve(out, in) && o.hangUp == 0
	}
	q.ended = time.Now()
	q.anyTrouble = troubled || w.troubled(r) || w.failures() != failed
	if q.answered {
		q.header, q.raw = out.Header(), out.Body.Bytes()
		q.status, q.body.replayed = out.Code, out.Header().Get("Idempotent-Replayed") == "true"
		if err := json.Unmarshal(out.Body.Bytes(), &q.body); err != nil {
			w.recordViolation("surface", "an answer is not JSON: %d %q", out.Code, out.Body)
		}
		_, _ = w.answers.Write(out.Body.Bytes())
		w.count(fmt.Sprintf("answer to %s: %d %s", kind, q.status, q.body.problem()))
	}
	w.note("%s: %s %v %s", label, kind, q.status, q.body.problem())
	w.mu.Lock()
	defer w.mu.Unlock()
	q.known = by == browser && p.requestedAsKnown
	w.requests = append(w.requests, q)
	return q
}

func (w *world) failures() (n int) {
	w.locked(func() { n = w.failed })
	return n
}

// troubled reports whether there is trouble with a replica, the database or the limiter.
func (w *world) troubled(r *Replica) (is bool) {
	w.locked(func() { is = len(r.commits) > 0 || isFuture(r.frozen) })
	return is || r.isDead() || w.faultLasts(DatabaseAway, DatabaseSlow, LimiterAway, LimiterSlow, LimiterDeaf, LimiterStalls)
}

// tick returns the interval of an outbox. It is longer than in the service, because most of the
// outbox's reads find nothing. A lease is twice as long, so every replica notices an outage that is
// longer than a lease.
func (w *world) tick() time.Duration {
	if w.plan.Span == long {
		return 6 * time.Minute
	}
	return 30 * time.Second
}

func (w *world) replica(i int) *Replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replicas[i%len(w.replicas)]
}

// ipOf returns an address in a separate network for each number. Strangers have other networks than
// a person's browser and back end.
func ipOf(by actor, n int) string {
	if by == stranger || by == form {
		return fmt.Sprintf("198.%d.%d.7", 18+n/250, n%250)
	}
	return fmt.Sprintf("192.%d.2.1", n)
}

func (w *world) send(e Event, by actor, p *person, o outgoing) *request {
	o.method, o.path = http.MethodPost, "/v1/verifications"
	if o.ip == "" {
		o.ip = ipOf(by, p.index)
	}
	if o.body == nil {
		o.body = map[string]any{"channel": p.channel, "to": w.spelling(e, p)}
		if e.N%2 == 0 {
			o.body["purpose"] = "login"
		}
		switch by {
		case backEnd:
			o.body["trust"] = "known"
		case form:
			o.body["client_ip"] = o.ip
		}
	}
	known := by == browser && w.tokenOf(p) != ""
	if known {
		o.body["known"] = []string{w.tokenOf(p)}
	}
	if e.Wait && by == backEnd {
		if o.header == nil {
			o.header = map[string]string{}
		}
		o.header["Prefer"] = "wait=5"
	}
	w.touch(p)
	q := w.do(e, sending, by, p, o)
	w.touch(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	q.known = known || q.known
	if q.answered && q.status == http.StatusAccepted {
		if by == browser {
			p.requestedAsKnown = known || p.requestedAsKnown && p.verifications[by] == q.body.ID
		}
		p.verifications[by] = q.body.ID
		w.verifications[q.body.Send.ID] = q.body.ID
	}
	return q
}

// spelling returns the address that an event uses for a person's mailbox.
func (w *world) spelling(e Event, p *person) string {
	local, domain, isMail := strings.Cut(p.to, "@")
	if !w.plan.Folding || !isMail || domain != "example.com" || e.N%3 != 1 {
		return p.to
	}
	return local + "+shop@" + domain
}

// verificationOf returns the verification that an actor has for a person, or "" if it has none.
func (w *world) verificationOf(p *person, by actor) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.verifications[by]
}

// tokenOf returns the token by which the app knows a person's browser, or "" if there is none.
func (w *world) tokenOf(p *person) (token string) {
	w.locked(func() { token = p.known })
	return token
}

// touch records that a person's quota may change.
func (w *world) touch(p *person) {
	w.locked(func() { p.changes++ })
}

// check enters a code for the verification that an actor has; "" stands for the right code. It
// returns nil if the actor has no verification, or if the right code should be entered and has not
// arrived.
func (w *world) check(e Event, by actor, p *person, code string, ip string) *request {
	id := w.verificationOf(p, by)
	if id == "" {
		return nil
	}
	right := w.codeOf(id)
	if code == "" {
		code = right
	}
	if code == "" {
		return nil
	}
	w.touch(p)
	q := w.do(e, checking, by, p, outgoing{
		method: http.MethodPost, path: "/v1/verifications/" + id + "/check",
		body: map[string]any{"code": code}, ip: ip,
	})
	w.touch(p)
	q.code, q.right, q.verification = code, code == right, id
	if q.body.Known != "" {
		w.count("a browser became known")
		w.locked(func() { p.known = q.body.Known })
	}
	return q
}

// codeOf returns the code of a verification if a message with the code has arrived, otherwise "".
func (w *world) codeOf(verification string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.mails {
		if w.verifications[m.send] == verification {
			return m.code
		}
	}
	return ""
}

func (w *world) look(e Event, by actor, p *person) *request {
	whose := map[string]any{"channel": p.channel, "to": w.spelling(e, p)}
	o := outgoing{method: http.MethodPost, path: "/v1/quota", body: whose, ip: ipOf(by, p.index)}
	if by == backEnd {
		whose["trust"] = "known"
	}
	if !by.hasSecretKey() {
		id := w.verificationOf(p, by)
		if id == "" {
			return nil
		}
		o.method, o.path, o.body = http.MethodGet, "/v1/verifications/"+id, nil
	}
	return w.do(e, looking, by, p, o)
}
