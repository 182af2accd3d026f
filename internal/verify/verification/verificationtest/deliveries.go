package verificationtest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
)

// MailServer gives its answers in turn, then accepts.
type MailServer struct {
	Each    time.Duration // that a mail takes
	mu      sync.Mutex
	answers []func(context.Context) error
	mails   []delivery.Mail // of every attempt
}

// Send implements outbox.MailSender.
func (p *MailServer) Send(ctx context.Context, m delivery.Mail) (delivery.Result, error) {
	m, err := m.WithTexts()
	p.mu.Lock()
	p.mails = append(p.mails, m)
	var answer func(context.Context) error
	if len(p.answers) > 0 {
		answer, p.answers = p.answers[0], p.answers[1:]
	}
	p.mu.Unlock()
	receipt := delivery.Result{Provider: "mx.example", ReplyCodes: "250 2.0.0"}
	if late := wait(ctx, p.Each); late != nil {
		return receipt, &delivery.Error{Class: delivery.Temporary, Stage: "rcpt", Err: late}
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

// Answer adds answers.
func (p *MailServer) Answer(answers ...func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = append(p.answers, answers...)
}

// Accept forgets the answers that are left, so that the server accepts from now on.
func (p *MailServer) Accept() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = nil
}

// Attempts returns the mails of all attempts, also of refused ones.
func (p *MailServer) Attempts() []delivery.Mail {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.mails)
}

// NoMailbox is a refusal for good.
var NoMailbox = FailWith(delivery.Rejected, "rcpt", 550, "5.1.1")

// FailWith is an answer of a mail server.
func FailWith(class delivery.ErrorClass, stage string, code int, enhanced string) func(context.Context) error {
	return func(context.Context) error {
		fail := delivery.ErrorByReply(stage, code, enhanced, delivery.NoMeaning)
		fail.Class, fail.Err = class, errors.New("the test says so")
		return fail
	}
}

// Hang answers only once release is closed, as if the process had died; then it accepts.
func Hang(release <-chan struct{}) func(context.Context) error {
	return func(context.Context) error { <-release; return nil }
}

var codeLine = regexp.MustCompile(`(?m)^\s*(\d{6,10}|[BCDFGHJKLMNPQRSTVWXZ]{8})\s*$`)

// CodeIn is the code in a mail.
func CodeIn(m delivery.Mail) string {
	m, err := m.WithTexts()
	found := codeLine.FindStringSubmatch(m.Text)
	if found == nil {
		return fmt.Sprintf("no code in mail %q, %v", m.Subject, err)
	}
	return found[1]
}

// Carrier accepts text messages, or fails.
type Carrier struct {
	Each time.Duration // that a message takes
	mu   sync.Mutex
	got  []sms.Message
	fail error
}

// Send implements outbox.Carrier.
func (h *Carrier) Send(ctx context.Context, m sms.Message) (delivery.Result, error) {
	_ = wait(ctx, h.Each)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fail != nil {
		return delivery.Result{Provider: "fake"}, h.fail
	}
	h.got = append(h.got, m)
	return delivery.Result{Provider: "fake", CarrierID: fmt.Sprint("id-", len(h.got)), ReplyCodes: "202"}, nil
}

// Fail makes every message from now on fail with err; nil: none.
func (h *Carrier) Fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail = err
}

// Accepted returns the text messages that the carrier accepted.
func (h *Carrier) Accepted() []sms.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}
