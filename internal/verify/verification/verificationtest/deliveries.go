package verificationtest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
)

// MailServer gives its answers in turn. After the last one it accepts every mail.
type MailServer struct {
	delivery.Unlimited
	Delay   time.Duration // how long a mail takes
	Slow    string        // mails to addresses with this ending take Delay, and others no time; empty: all take Delay
	mu      sync.Mutex
	answers []func(context.Context) error
	mails   []delivery.Mail // the mails of all attempts
}

// Send implements outbox.MailSender.
func (ms *MailServer) Send(ctx context.Context, m delivery.Mail) (delivery.Result, error) {
	m, err := m.WithTexts()
	ms.mu.Lock()
	ms.mails = append(ms.mails, m)
	var answer func(context.Context) error
	if len(ms.answers) > 0 {
		answer, ms.answers = ms.answers[0], ms.answers[1:]
	}
	ms.mu.Unlock()
	receipt := delivery.Result{Provider: "mx.example", ReplyCodes: "250 2.0.0"}
	if strings.HasSuffix(m.To, ms.Slow) && wait(ctx, ms.Delay) != nil {
		return receipt, &delivery.Error{
			Class: delivery.Temporary, Stage: delivery.StageRcpt, About: delivery.AboutUs, Err: delivery.CauseOf(ctx),
		}
	}
	if answer == nil {
		return receipt, err
	}
	return receipt, answer(ctx)
}

// wait waits for d. It returns the error of ctx if ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Answer adds answers for the next attempts.
func (ms *MailServer) Answer(answers ...func(context.Context) error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.answers = append(ms.answers, answers...)
}

// Accept forgets the remaining answers, so that the server accepts from now on.
func (ms *MailServer) Accept() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.answers = nil
}

// Forget forgets the mails of earlier attempts, for a test that sends very many.
func (ms *MailServer) Forget() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.mails = nil
}

// Attempts returns the mails of all attempts, including refused ones.
func (ms *MailServer) Attempts() []delivery.Mail {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return slices.Clone(ms.mails)
}

// NoMailbox is a final refusal, because the mailbox does not exist.
var NoMailbox = FailWith(delivery.Rejected, "rcpt", 550, "5.1.1")

// FailWith returns an answer with which an attempt fails.
func FailWith(class delivery.ErrorClass, stage string, code int, enhanced string) func(context.Context) error {
	return func(context.Context) error {
		fail := delivery.ErrorByReply(stage, code, enhanced, delivery.NoMeaning)
		fail.Class, fail.Err = class, errors.New("the test says so")
		return fail
	}
}

// Hang returns an answer that comes only after release is closed, as if the process had died; then
// it accepts.
func Hang(release <-chan struct{}) func(context.Context) error {
	return func(context.Context) error { <-release; return nil }
}

var codeLine = regexp.MustCompile(`(?m)^\s*(\d{6,10}|[BCDFGHJKLMNPQRSTVWXZ]{8})\s*$`)

// CodeIn returns the code in a mail. If the mail has none, CodeIn returns a text that says so.
func CodeIn(m delivery.Mail) string {
	m, err := m.WithTexts()
	found := codeLine.FindStringSubmatch(m.Text)
	if found == nil {
		return fmt.Sprintf("no code in mail %q, %v", m.Subject, err)
	}
	return found[1]
}

// Carrier accepts each text message, unless Fail has set an error.
type Carrier struct {
	delivery.Unlimited
	Delay    time.Duration // how long a message takes
	mu       sync.Mutex
	accepted []sms.Message
	fail     error
}

// Send implements outbox.Carrier.
func (c *Carrier) Send(ctx context.Context, m sms.Message) (delivery.Result, error) {
	_ = wait(ctx, c.Delay)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return delivery.Result{Provider: "fake"}, c.fail
	}
	c.accepted = append(c.accepted, m)
	return delivery.Result{Provider: "fake", CarrierID: fmt.Sprint("id-", len(c.accepted)), ReplyCodes: "202"}, nil
}

// Fail makes all later messages fail with err. With nil none fail.
func (c *Carrier) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

// Accepted returns the text messages that the carrier accepted.
func (c *Carrier) Accepted() []sms.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.accepted)
}
