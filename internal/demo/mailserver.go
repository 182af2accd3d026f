package demo

import (
	"context"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/sms"
	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// MailServer plays the mail server and the carriers: they take time, refuse mailboxes that do not
// exist, and have bad hours. It remembers the last code that each recipient got, as the person
// would read it. Safe for concurrent use.
type MailServer struct {
	clock *simulatedClock

	mu    sync.Mutex
	rng   *rand.Rand
	codes map[string]string
	pace  serverPace
}

// serverPace is how the mail server works at an hour of the week.
type serverPace int

const (
	usualPace serverPace = iota
	slowPace
	breakOffPace // the connection ends after the whole mail was handed over
)

// NewMailServer returns a mail server. Each message moves the clock on by the time that sending it
// takes.
func NewMailServer(c *simulatedClock) *MailServer {
	return &MailServer{clock: c, rng: newRand(1), codes: map[string]string{}}
}

// Domains whose mailboxes refuse mails, and the host of the played mail server.
const (
	noMailboxDomain   = "gone.example" // its server knows no mailbox
	fullMailboxDomain = "full.example"
	relayHost         = "smtp.relay.example"
)

var codePattern = regexp.MustCompile(`(?m)^\s*([0-9]{6,10}|[A-Z]{6,10})\s*$`)

// Send implements outbox.MailSender: it takes a mail, or refuses it.
func (p *MailServer) Send(_ context.Context, mail delivery.Mail) (delivery.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.randomDuration(120, 900)
	if p.pace == slowPace {
		took = p.randomDuration(4000, 9000)
	}
	p.clock.advance(took)
	receipt := delivery.Result{Provider: relayHost, Code: "250 2.0.0", Took: took}
	refused := func(status int, code string) (delivery.Result, error) {
		return receipt, &delivery.Error{Class: delivery.Rejected, Stage: "rcpt", Status: status, Code: code}
	}
	switch {
	case strings.HasSuffix(mail.To, noMailboxDomain):
		return refused(550, "5.1.1")
	case strings.HasSuffix(mail.To, fullMailboxDomain):
		return refused(552, "5.2.2")
	case p.pace == breakOffPace:
		return receipt, &delivery.Error{Class: delivery.Unknown, Stage: "data"}
	}
	mail, err := mail.WithTexts()
	if found := codePattern.FindStringSubmatch(mail.Text); found != nil {
		p.codes[mail.To] = found[1]
	}
	return receipt, err
}

// Carrier implements outbox.Carrier.
type Carrier struct{ *MailServer }

// Send takes a text message.
func (p Carrier) Send(_ context.Context, m sms.Message) (delivery.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.randomDuration(180, 1400)
	p.clock.advance(took)
	p.codes[m.To] = m.Code
	carrier := "twilio"
	if m.Country == "CN" {
		carrier = "aliyun"
	}
	return delivery.Result{Provider: carrier, ID: m.ID, Code: "200", Took: took}, nil
}

func (p *MailServer) randomDuration(from, to int) time.Duration {
	return time.Duration(from+p.rng.IntN(to-from)) * time.Millisecond
}

// lastCode returns the code that a recipient read last.
func (p *MailServer) lastCode(to string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.codes[to]
}

func (p *MailServer) setPace(now serverPace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace = now
}

// SyncOutbox is an outbox that waits for each outcome, so that the week goes on in one order.
type SyncOutbox struct{ verification.Outbox }

// Deliver waits until the send has ended.
func (w SyncOutbox) Deliver(ctx context.Context, work store.Work, _ time.Duration) store.Send {
	return w.Outbox.Deliver(ctx, work, time.Minute)
}

// newRand returns a source of random numbers, one for each stream. It gives the same numbers in
// each run, so the week is the same each time.
func newRand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(20261121, stream)) }
