package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// waitResult is the outcome of waiting for a call's turn.
type waitResult int

const (
	onTime           waitResult = iota
	tooLate                     // the caller gave up
	diedBeforeEffect            // the replica died, and the call had no effect
	diedAfterEffect             // the replica died, and the call had an effect
)

// turn waits until a call may go on: for the call's latency, and while its replica is frozen. The
// random latency, in nanoseconds, keeps two calls from going on at the same instant.
func (r *Replica) turn(ctx context.Context, source *rand.Rand, slow bool) waitResult {
	if r.isDead() {
		return diedBeforeEffect
	}
	f := r.sleep(ctx, latency(source, slow))
	for f != diedBeforeEffect && isFuture(r.thaws()) { // a frozen process does not notice that it is late
		f = r.sleep(context.WithoutCancel(ctx), time.Until(r.thaws())+latency(source, false))
		if f == onTime && ctx.Err() != nil {
			f = tooLate
		}
	}
	if f == diedBeforeEffect && source.IntN(2) == 0 {
		return diedAfterEffect
	}
	return f
}

// sourceOf returns the random numbers of one call.
func (r *Replica) sourceOf(ctx context.Context, label string) *rand.Rand {
	of, _ := ctx.Value(eventKey{}).(string)
	label = r.name + " " + label + " " + of
	return source(r.world.plan.Seed, label+" "+strconv.Itoa(r.world.nth(label)))
}

// latency returns up to 3.1 ms, and for one call in 16 up to 300 ms more. If slow is true, it
// returns up to 5 s more.
func latency(r *rand.Rand, slow bool) time.Duration {
	d := time.Duration(100_000 + r.IntN(3_000_000))
	switch {
	case slow:
		d += time.Duration(r.Int64N(int64(5 * time.Second)))
	case r.IntN(16) == 0:
		d += time.Duration(r.Int64N(int64(300 * time.Millisecond)))
	}
	return d
}

func (r *Replica) sleep(ctx context.Context, d time.Duration) waitResult {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return onTime
	case <-ctx.Done():
		return tooLate
	case <-r.died:
		return diedBeforeEffect
	}
}

// access is the hook of a replica's database. It delays each statement until its turn. The
// statement fails if a fault is due, or if the replica has died.
func (r *Replica) access(ctx context.Context, method string, at sqlitetest.Stage) sqlitetest.Fault {
	if at == sqlitetest.Committing {
		return r.commit(ctx, method)
	}
	if r.isDead() {
		return sqlitetest.Down
	}
	w, source := r.world, r.sourceOf(ctx, method)
	for {
		f := r.turn(ctx, source, w.faultLasts(DatabaseSlow))
		w.mu.Lock()
		busy := w.committing // closed when the current commit has ended; nil: there is none
		w.mu.Unlock()
		switch {
		case f == diedBeforeEffect || f == tooLate:
			return sqlitetest.Down
		case w.faultLasts(DatabaseAway):
			w.count("database away")
			return sqlitetest.Down
		case f == onTime && busy == nil && w.callFails("database") != "":
			return sqlitetest.Down
		case f == diedAfterEffect || busy == nil:
			w.note("%s database %s", r.name, method)
			return sqlitetest.None
		}
		select { // another call holds the lock
		case <-busy:
		case <-ctx.Done():
		case <-r.died:
		}
	}
}

func (w *world) setCommitting(c chan struct{}) {
	w.locked(func() { w.committing = c })
}

// commit runs between the statements of a call and its commit.
func (r *Replica) commit(ctx context.Context, method string) (fault sqlitetest.Fault) {
	w := r.world
	if r.isDead() {
		return sqlitetest.None // the call had an effect, so it ends as diedAfterEffect
	}
	ended := make(chan struct{})
	w.setCommitting(ended)
	defer func() {
		w.setCommitting(nil)
		close(ended)
		w.note("%s database %s commits: %d", r.name, method, fault)
	}()
	source := r.sourceOf(ctx, method+" commit")
	f := r.sleep(ctx, latency(source, w.faultLasts(DatabaseSlow)))
	switch {
	case f != onTime && source.IntN(2) == 0:
		w.count("commit cut: " + method)
		return sqlitetest.Vague
	case f != onTime:
		w.count("commit heard too late: " + method)
		return sqlitetest.Lost
	}
	k := r.nextCommit(method)
	if k == "" {
		k = w.callFails("commit")
	} else {
		w.count(string(k) + ": " + method)
	}
	switch k {
	case CommitFails, CallFails:
		return sqlitetest.Down
	case CommitUnheard, CallUnheard:
		return sqlitetest.Lost
	case CommitVague, CallVague:
		return sqlitetest.Vague
	}
	return sqlitetest.None
}

// reach runs a call of the limiter at its turn. If the call happened but its answer was lost, the
// caller gets ErrUnavailable.
func (r *Replica) reach(ctx context.Context, name string, call func() error) error {
	w := r.world
	f := r.turn(ctx, r.sourceOf(ctx, "limiter "+name), w.faultLasts(LimiterSlow))
	if f == onTime && w.faultLasts(LimiterStalls) {
		f = r.stall(ctx, name, call)
	}
	away, deaf := w.faultLasts(LimiterAway), w.faultLasts(LimiterDeaf)
	switch {
	case f == diedBeforeEffect: // a dead replica's calls, which come in any order, are not counted
		return quota.ErrUnavailable
	case away:
		w.count("limiter away: " + name)
		return quota.ErrUnavailable
	case f == tooLate && r.sourceOf(ctx, "late").IntN(2) == 0:
		w.count("limiter too late: " + name)
		return quota.ErrUnavailable
	}
	k := w.callFails("limiter")
	if k == CallFails {
		return quota.ErrUnavailable
	}
	w.note("%s limiter %s", r.name, name)
	err := call()
	if f != onTime || deaf || k == CallUnheard {
		w.count("limiter unheard: " + name)
		return quota.ErrUnavailable
	}
	return err
}

// stall makes a call hang until the limiter goes on. A call that its caller has given up may still
// take effect then.
func (r *Replica) stall(ctx context.Context, name string, call func() error) waitResult {
	w, source := r.world, r.sourceOf(ctx, "stall")
	var end time.Time
	w.locked(func() { end = w.faultEnds[LimiterStalls].Add(latency(source, false)) })
	f := r.sleep(ctx, time.Until(end))
	if f != onTime && source.IntN(2) == 0 {
		w.actors.Go(func() {
			<-time.After(time.Until(end))
			w.note("%s limiter %s, late", r.name, name)
			_ = call()
			w.locked(func() { w.movedWrites++ })
		})
		w.count("limiter happened after a stall: " + name)
		return diedBeforeEffect
	}
	return f
}

// mail is a mail or a text message on its way to a simulated provider.
type mail struct {
	at        time.Time
	send      string // the send's ID
	messageID string
	to, code  string
	after     int  // how many crashes came before the mail arrived
	unheard   bool // the mail arrived, but the sender got no answer
}

// mailServer is the simulated mail server, as one replica reaches it.
type mailServer struct {
	delivery.Unlimited
	*Replica
}

// Send implements outbox.MailSender.
func (ms mailServer) Send(ctx context.Context, m delivery.Mail) (delivery.Result, error) {
	id, _, _ := strings.Cut(m.MessageID, ".")
	err := ms.deliver(ctx, mail{send: id, messageID: m.MessageID, to: m.To, code: verificationtest.CodeIn(m)})
	return delivery.Result{Provider: "mx.example", ReplyCodes: "250 2.0.0"}, err
}

// carrier is the simulated carrier, as one replica reaches it.
type carrier struct {
	delivery.Unlimited
	*Replica
}

// Send implements outbox.Carrier.
func (c carrier) Send(ctx context.Context, m sms.Message) (delivery.Result, error) {
	err := c.deliver(ctx, mail{send: m.ID, messageID: m.ID, to: m.To, code: m.Code})
	return delivery.Result{Provider: "carrier.example", ReplyCodes: "202"}, err
}

// deliver delivers a message to the simulated provider, with random faults. Error: a
// *delivery.Error. If its class is Unknown, the message has arrived.
func (r *Replica) deliver(ctx context.Context, m mail) error {
	w := r.world
	f := r.turn(ctx, r.sourceOf(ctx, "server "+m.send), w.faultLasts(ServerStalls))
	failure := func(class delivery.ErrorClass, stage string, status int, code string) error {
		if f != diedBeforeEffect {
			w.count("server: " + string(class))
		}
		fail := delivery.ErrorByReply(stage, status, code, delivery.NoMeaning)
		fail.Class, fail.Err = class, errors.New("simulated")
		return fail
	}
	switch {
	case f == diedBeforeEffect:
		return failure(delivery.Temporary, "dial", 0, "")
	case f == tooLate:
		return failure(delivery.Temporary, "rcpt", 0, "")
	case w.faultLasts(ServerRefuses):
		return failure(delivery.Rejected, "data", 554, "5.7.1")
	case w.faultLasts(ServerBusy):
		return failure(delivery.Temporary, "rcpt", 451, "4.3.0")
	}
	k := w.callFails("server")
	if k == CallFails {
		return failure(delivery.Temporary, "dial", 0, "")
	}
	m.at, m.unheard = time.Now(), w.faultLasts(ServerDrops) || k == CallUnheard
	w.count("message arrived")
	w.locked(func() {
		m.after = w.crashes
		w.mails = append(w.mails, m)
	})
	if m.unheard {
		return failure(delivery.Unknown, "data", 0, "")
	}
	w.note("%s hands over %s", r.name, m.send)
	return nil
}

// receiver is the simulated back end of an app, which receives webhooks.
type receiver struct{ *Replica }

// RoundTrip implements http.RoundTripper.
func (re receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	w := re.world
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f := re.turn(r.Context(), re.sourceOf(r.Context(), "hook "+r.Header.Get("Webhook-Id")), false)
	if f == diedBeforeEffect || f == tooLate {
		return nil, context.DeadlineExceeded
	}
	status := http.StatusNoContent
	if w.faultLasts(HookFails) {
		status = http.StatusInternalServerError
	} else {
		w.recordWebhook(r.Header.Get("Webhook-Id"), string(body))
	}
	if f == diedAfterEffect || w.faultLasts(HookDeaf) {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil)), Request: r}, nil
}

// recordWebhook records a received webhook event, and reports a violation if the same ID came with
// another content.
func (w *world) recordWebhook(id, body string) {
	_, _ = w.posted.Write([]byte(body + "\n"))
	w.mu.Lock()
	before, known := w.hooks[id]
	w.hooks[id] = body
	w.mu.Unlock()
	w.count("webhook taken")
	if known && parseHook(before) != parseHook(body) {
		w.recordViolation("webhooks", "the event %s was told in two ways: %s and %s", id, before, body)
	}
}

// hook has the fields of an event that oracles read. It lacks the masked address, which may be
// erased between two attempts.
type hook struct {
	Type string
	Data struct {
		Verification string `json:"verification_id"`
		Send         string `json:"send_id"`
		Status       string
	}
}

// parseHook parses an event. If the event is not JSON, the result has no type.
func parseHook(body string) (h hook) {
	_ = json.Unmarshal([]byte(body), &h)
	return h
}
