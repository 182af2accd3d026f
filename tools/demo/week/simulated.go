package week

import (
	"context"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// simulatedClock is the time of the simulated week, in ns since 1970. It only goes forward. Safe
// for concurrent use.
type simulatedClock struct{ now atomic.Int64 }

func newSimulatedClock(at time.Time) *simulatedClock {
	c := &simulatedClock{}
	c.now.Store(at.UnixNano())
	return c
}

// Now returns the time that the clock shows.
func (c *simulatedClock) Now() time.Time { return time.Unix(0, c.now.Load()).UTC() }

// advanceTo moves the clock forward to an instant. If the clock already shows a later instant, it
// does nothing.
func (c *simulatedClock) advanceTo(at time.Time) { c.now.Add(int64(max(0, at.Sub(c.Now())))) }

// mailServer simulates the mail server and, for carrier, the delivery of text messages. It
// remembers the last code of each recipient, as the person would read it. Safe for concurrent use.
type mailServer struct {
	delivery.Unlimited
	clock *simulatedClock

	mu    sync.Mutex
	rng   *rand.Rand
	codes map[string]string
}

// newMailServer returns a mail server that moves the clock forward with each message, because
// sending takes time.
func newMailServer(c *simulatedClock) *mailServer {
	return &mailServer{clock: c, rng: newSeededRand(1), codes: map[string]string{}}
}

// mailServer never confirms a mail to these domains.
const (
	noMailboxDomain = "gone.example"   // the domain's server knows no mailbox
	breakOffDomain  = "broken.example" // the connection ends after the whole mail was handed over
)

var codePattern = regexp.MustCompile(`(?m)^\s*([0-9]{6,10}|[A-Z]{6,10})\s*$`)

// Send implements outbox.MailSender.
func (m *mailServer) Send(_ context.Context, mail delivery.Mail) (delivery.Result, error) {
	receipt := delivery.Result{Provider: "smtp.relay.example", ReplyCodes: "250 2.0.0"}
	var code string
	var err error
	switch {
	case strings.HasSuffix(mail.To, noMailboxDomain):
		err = delivery.ErrorByReply(delivery.StageRcpt, 550, "5.1.1", delivery.NoMeaning)
	case strings.HasSuffix(mail.To, breakOffDomain):
		err = &delivery.Error{Class: delivery.Unknown, Stage: "data"}
	default:
		mail, err = mail.WithTexts()
		if found := codePattern.FindStringSubmatch(mail.Text); found != nil {
			code = found[1]
		}
	}
	receipt.Took = m.simulateAttempt(mail.To, code)
	return receipt, err
}

// carrier implements outbox.Carrier.
type carrier struct{ *mailServer }

// Send always succeeds.
func (c carrier) Send(_ context.Context, m sms.Message) (delivery.Result, error) {
	return delivery.Result{Provider: "twilio", CarrierID: m.ID, ReplyCodes: "200", Took: c.simulateAttempt(m.To, m.Code)}, nil
}

// simulateAttempt remembers the code, moves the clock forward by a random time, and returns that
// time.
func (m *mailServer) simulateAttempt(to, code string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.codes[to] = code
	took := time.Duration(120+m.rng.IntN(900)) * time.Millisecond
	m.clock.now.Add(int64(took))
	return took
}

// lastCode returns the code that a recipient read last, or "" if the last message did not arrive.
func (m *mailServer) lastCode(to string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.codes[to]
}

// syncOutbox is an outbox that waits for each outcome, so that the events of the week have one
// order.
type syncOutbox struct{ verification.Outbox }

// Submit waits until the send has ended.
func (s syncOutbox) Submit(ctx context.Context, work store.Work, _ time.Duration) store.Send {
	return s.Outbox.Submit(ctx, work, time.Minute)
}

// newSeededRand returns the source of random numbers for a stream. It gives the same numbers in
// each run, so that the demonstration looks much the same each time.
func newSeededRand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(20261121, stream)) }
