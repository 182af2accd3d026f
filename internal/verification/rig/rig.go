// Package rig is a process on a log and a limiter in memory, inside a bubble with a clock of its own, for the tests of the use cases and
// of what works beside them: what they ask for, what the mail server and the carrier answer, and what went wrong on the way.
package rig

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/code"
	"sendcode/internal/delivery"
	"sendcode/internal/keyring"
	"sendcode/internal/message"
	"sendcode/internal/outbox"
	"sendcode/internal/parts"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/vault"
	"sendcode/internal/verification"
	"sendcode/internal/verification/verificationtest"
	"sendcode/quota"
	"sendcode/templates"
)

const (
	Ana    = "ana.maria@example.com"
	AnaAs  = "a•••@example.com"
	Minute = time.Minute
)

var (
	OldKey = keyFrom("old")
	NewKey = keyFrom("new")
)

func keyFrom(seed string) string {
	sum := sha256.Sum256([]byte(seed))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func RingOf(t *testing.T, keys string) *keyring.Ring {
	t.Helper()
	ring, err := keyring.Parse(keys)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// rig is a service on a log and a limiter in memory, inside a bubble with a clock of its own.
type Rig struct {
	*testing.T
	Svc      *Service
	Store    *Away
	Limiter  *swap
	Post     *Postbox
	Handset  *Handset
	Printed  *parts.Text
	Settings Settings
	Renderer *message.Renderer
	Stopped  chan struct{}
	Stop     context.CancelFunc
}

// Settings are what tests choose of a service.
type Settings = verificationtest.Settings

// service is one process, with a limiter that can be exchanged.
type Service struct {
	*verificationtest.Process
	Limiter *swap
}

// blind observes nothing.
type blind struct{}

func (blind) Decided(recipient.Channel, string, string, string) {}

func (blind) Observed(recipient.Channel, string, string) {}

func (blind) Finished(recipient.Channel, string, store.Status, time.Duration) {}

func (blind) Checked(recipient.Channel, string, string) {}

func (blind) CheckBound(recipient.Channel, string, string) {}

func (blind) PrefixPaused(string, string) {}

// inBubble runs a test against a running service.
func InBubble(t *testing.T, test func(r *Rig)) {
	t.Helper()
	InBubbleWith(t, nil, test)
}

func InBubbleWith(t *testing.T, change func(*Settings), test func(r *Rig)) {
	t.Helper()
	parts.Bubble(t, func(t *testing.T) {
		r := NewRig(t, change)
		r.Start()
		test(r)
		r.Quit()
		r.NoLeak()
	})
}

// seldom makes the outbox look around once a minute: for tests in which hours or days pass and nothing waits for a look.
func Seldom(change func(*Settings)) func(*Settings) {
	return func(s *Settings) {
		if change != nil {
			change(s)
		}
		s.Tick = Minute
	}
}

func NewRig(t *testing.T, change func(*Settings)) *Rig {
	t.Helper()
	renderer, err := message.New(templates.FS)
	if err != nil {
		t.Fatal(err)
	}
	r := &Rig{
		T: t, Store: &Away{DB: sqlitetest.Open(t, time.Now)}, Limiter: newSwap(quota.NewMemory(time.Now, "process")),
		Post: &Postbox{}, Handset: &Handset{}, Printed: &parts.Text{}, Settings: TestSettings(t), Renderer: renderer,
	}
	if change != nil {
		change(&r.Settings)
	}
	r.Svc = r.Replica(r.Post)
	return r
}

// replica is another process over the same log and limiter.
func (r *Rig) Replica(s outbox.Sender) *Service { return r.ReplicaWith(s, r.Handset) }

func (r *Rig) ReplicaWith(s outbox.Sender, c outbox.Carrier) *Service {
	return r.ReplicaOn(r.Store, s, c)
}

func (r *Rig) ReplicaOn(log verificationtest.Log, sender outbox.Sender, c outbox.Carrier) *Service {
	limiter := newSwap(r.Limiter)
	return &Service{Limiter: limiter, Process: verificationtest.New(r.Settings, verificationtest.Parts{
		Limiter: limiter, Log: log, Mails: r.Renderer, Sender: sender, Texts: testTexts(r.T), Carrier: c,
		Logger: slog.New(slog.NewTextHandler(r.Printed, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})}
}

func TestSettings(t *testing.T) Settings {
	t.Helper()
	ring := RingOf(t, "k1:"+OldKey)
	own := quota.Policy{Name: "default", Rules: []quota.Rule{
		{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
		{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
		{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
	}}
	shares := []string{"default", "login"}
	purpose := policy.Purpose{Name: "default", Policy: own, Shares: shares, TTL: 10 * time.Minute, CodeLength: 6, Alphabet: code.Digits}
	login := purpose
	login.Name = "login"
	return Settings{
		Set: policy.Set{
			Purposes: map[string]policy.Purpose{"default": purpose, "login": login},
			Apps:     map[string]policy.App{"shop": {Title: "Shop"}},
		},
		Vault: vault.Vault{IndexKey: []byte("an index key of 32 bytes or more"), Ring: ring},
	}
}

func (r *Rig) Start() {
	var ctx context.Context
	ctx, r.Stop = context.WithCancel(context.Background())
	r.Stopped = make(chan struct{})
	go func() { defer close(r.Stopped); r.Svc.Run(ctx) }()
}

func (r *Rig) Quit() {
	r.Stop()
	<-r.Stopped
	synctest.Wait() // what is under way in other replicas ends before the log closes
}

// ids are of sends and the like: one of them has the six digits of some code once in a few thousand runs.
var ids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// noLeak searches everything that was logged for what must not be there.
func (r *Rig) NoLeak() {
	r.Helper()
	out := ids.ReplaceAllString(r.Printed.String(), "")
	for _, m := range r.Post.All() {
		if strings.Contains(out, CodeIn(m)) {
			r.Errorf("a code was logged")
		}
	}
	for _, m := range r.Handset.All() {
		if strings.Contains(out, m.Code) || strings.Contains(out, m.To[3:]) {
			r.Errorf("a code or a number was logged")
		}
	}
	if strings.Contains(out, "ana.maria") {
		r.Errorf("a recipient was logged: %s", out)
	}
}

var BackEnd = verification.Caller{App: "shop", Kind: verification.Secret, IP: netip.MustParseAddr("192.0.2.1")}

var Browser = verification.Caller{App: "shop", Kind: verification.Browser, IP: netip.MustParseAddr("192.0.2.1")}

func AskFor(to string) verification.Ask {
	return verification.Ask{Caller: BackEnd, Channel: "email", To: to, Locale: "en"}
}

// send asks, and fails the test unless the request is let in. It returns once the attempt has ended.
func (r *Rig) Send(ask verification.Ask) verification.Answer {
	r.Helper()
	a, err := r.Svc.Send(r.Context(), ask)
	if err != nil {
		r.Fatalf("Send: %v", err)
	}
	if !a.Admitted {
		r.Fatalf("refused by %v, %v left", a.Quota.Violated(), a.Quota.RetryAfter())
	}
	synctest.Wait()
	return a
}

func (r *Rig) Refuse(ask verification.Ask) verification.Answer {
	r.Helper()
	a, err := r.Svc.Send(r.Context(), ask)
	if err != nil {
		r.Fatalf("Send: %v", err)
	}
	if a.Admitted {
		r.Fatalf("let in, want a refusal")
	}
	return a
}

func (r *Rig) Get(id string) verification.View {
	r.Helper()
	a, err := r.Svc.Get(r.Context(), BackEnd, id)
	if err != nil {
		r.Fatalf("Get: %v", err)
	}
	return a.View
}

func (r *Rig) Check(id, code string) verification.Checked {
	r.Helper()
	c, err := r.Svc.Check(r.Context(), BackEnd, id, code)
	if err != nil {
		r.Fatalf("Check: %v", err)
	}
	return c
}

// Waited lets time pass in the bubble, and waits until all its goroutines wait again.
func Waited(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// postbox is a mail server that answers as told, in turn; when nothing is told it accepts.
type Postbox struct {
	mu      sync.Mutex
	Answers []func(context.Context) error
	mails   []delivery.Message // every attempt
}

func (p *Postbox) Send(ctx context.Context, m delivery.Message) (delivery.Receipt, error) {
	p.mu.Lock()
	p.mails = append(p.mails, m)
	var answer func(context.Context) error
	if len(p.Answers) > 0 {
		answer, p.Answers = p.Answers[0], p.Answers[1:]
	}
	p.mu.Unlock()
	receipt := delivery.Receipt{Provider: "mx.example", Code: 250, Enhanced: "2.0.0"}
	if answer == nil {
		return receipt, nil
	}
	return receipt, answer(ctx)
}

func (p *Postbox) Tell(answers ...func(context.Context) error) {
	p.Answers = append(p.Answers, answers...)
}

func (p *Postbox) All() []delivery.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]delivery.Message(nil), p.mails...)
}

func Failing(class delivery.Class, stage string, code int, enhanced string) func(context.Context) error {
	return func(context.Context) error {
		return &delivery.Error{Class: class, Stage: stage, Status: code, Code: enhanced, Err: errors.New("told so")}
	}
}

// hanging is a process that died, as far as anybody else can see: it never comes back.
func Hanging(release <-chan struct{}) func(context.Context) error {
	return func(context.Context) error { <-release; return nil }
}

var codeLine = regexp.MustCompile(`(?m)^\s*(\d{6,10}|[BCDFGHJKLMNPQRSTVWXZ]{8})\s*$`)

func CodeIn(m delivery.Message) string {
	found := codeLine.FindStringSubmatch(m.Text)
	if found == nil {
		return fmt.Sprintf("no code in mail %q", m.Subject)
	}
	return found[1]
}

func WrongFor(code string) string {
	if code[0] == '9' {
		return "0" + code[1:]
	}
	return "9" + code[1:]
}

// bucketsOf are those of a recipient's mails, as the back end's requests count.
func BucketsOf(p policy.Purpose, h recipient.Hash) map[quota.Scope]string {
	return policy.Subject{App: "shop", IP: BackEnd.IP, Channel: recipient.Email, Recipient: h, Purpose: p}.Buckets()
}
