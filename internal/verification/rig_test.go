package verification

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

	"sendcode/internal/delivery"
	"sendcode/internal/keyring"
	"sendcode/internal/message"
	"sendcode/internal/parts"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/quota"
	"sendcode/templates"
)

const (
	ana    = "ana.maria@example.com"
	anaAs  = "a•••@example.com"
	minute = time.Minute
)

var (
	oldKey = keyFrom("old")
	newKey = keyFrom("new")
)

func keyFrom(seed string) string {
	sum := sha256.Sum256([]byte(seed))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func ringOf(t *testing.T, keys string) *keyring.Ring {
	t.Helper()
	ring, err := keyring.Parse(keys)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// rig is a service on a log and a limiter in memory, inside a bubble with a clock of its own.
type rig struct {
	*testing.T
	svc      *Service
	log      *away
	limiter  *swap
	post     *postbox
	handset  *handset
	printed  *parts.Text
	settings Settings
	renderer *message.Renderer
	stopped  chan struct{}
	stop     context.CancelFunc
}

// inBubble runs a test against a running service.
func inBubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	inBubbleWith(t, nil, test)
}

func inBubbleWith(t *testing.T, change func(*Settings), test func(r *rig)) {
	t.Helper()
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, change)
		r.run()
		test(r)
		r.quit()
		r.noLeak()
	})
}

// seldom makes the outbox look around once a minute: for tests in which hours or days pass and nothing waits for a look.
func seldom(change func(*Settings)) func(*Settings) {
	return func(s *Settings) {
		if change != nil {
			change(s)
		}
		s.Tick = minute
	}
}

func newRig(t *testing.T, change func(*Settings)) *rig {
	t.Helper()
	renderer, err := message.New(templates.FS, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		T: t, log: &away{DB: sqlitetest.Open(t, time.Now)}, limiter: newSwap(quota.NewMemory(time.Now, "process")),
		post: &postbox{}, handset: &handset{}, printed: &parts.Text{}, settings: testSettings(t), renderer: renderer,
	}
	if change != nil {
		change(&r.settings)
	}
	r.svc = r.replica(r.post)
	return r
}

// replica is another process over the same log and limiter.
func (r *rig) replica(s Sender) *Service { return r.replicaWith(s, r.handset) }

func (r *rig) replicaWith(s Sender, c Carrier) *Service {
	return New(r.settings, Parts{
		Limiter: r.limiter, Log: r.log, Renderer: r.renderer, Sender: s, Texts: testTexts(r.T), Carrier: c,
		Logger: slog.New(slog.NewTextHandler(r.printed, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}

func testSettings(t *testing.T) Settings {
	t.Helper()
	ring := ringOf(t, "k1:"+oldKey)
	policy := quota.Policy{Name: "default", Rules: []quota.Rule{
		{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
		{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
		{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
	}}
	shares := []string{"default", "login"}
	purpose := Purpose{Name: "default", Policy: policy, Shares: shares, Life: 10 * time.Minute, CodeLength: 6, Alphabet: Digits}
	login := purpose
	login.Name = "login"
	return Settings{
		Terms: Terms{
			Purposes: map[string]Purpose{"default": purpose, "login": login},
			Titles:   map[string]string{"shop": "Shop"},
		},
		MailFrom: "Shop <no-reply@shop.example>", Domain: "shop.example",
		IndexKey: []byte("an index key of 32 bytes or more"), Ring: ring,
	}
}

func (r *rig) run() {
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	r.stopped = make(chan struct{})
	go func() { defer close(r.stopped); r.svc.Run(ctx) }()
}

func (r *rig) quit() {
	r.stop()
	<-r.stopped
	synctest.Wait() // what is under way in other replicas ends before the log closes
}

// ids are of sends and the like: one of them has the six digits of some code once in a few thousand runs.
var ids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// noLeak searches everything that was logged for what must not be there.
func (r *rig) noLeak() {
	r.Helper()
	out := ids.ReplaceAllString(r.printed.String(), "")
	for _, m := range r.post.all() {
		if strings.Contains(out, codeIn(m)) {
			r.Errorf("a code was logged")
		}
	}
	for _, m := range r.handset.all() {
		if strings.Contains(out, m.Code) || strings.Contains(out, m.To[3:]) {
			r.Errorf("a code or a number was logged")
		}
	}
	if strings.Contains(out, "ana.maria") {
		r.Errorf("a recipient was logged: %s", out)
	}
}

var backEnd = Caller{App: "shop", Kind: Secret, IP: netip.MustParseAddr("192.0.2.1")}
var browser = Caller{App: "shop", Kind: Browser, IP: netip.MustParseAddr("192.0.2.1")}

func askFor(to string) Ask { return Ask{Caller: backEnd, Channel: "email", To: to, Locale: "en"} }

// send asks, and fails the test unless the request is let in. It returns once the attempt has ended.
func (r *rig) send(ask Ask) Answer {
	r.Helper()
	a, err := r.svc.Send(r.Context(), ask)
	if err != nil {
		r.Fatalf("Send: %v", err)
	}
	if !a.Admitted {
		r.Fatalf("refused by %v, %v left", a.Quota.Violated(), a.Quota.RetryAfter())
	}
	synctest.Wait()
	return a
}

func (r *rig) refuse(ask Ask) Answer {
	r.Helper()
	a, err := r.svc.Send(r.Context(), ask)
	if err != nil {
		r.Fatalf("Send: %v", err)
	}
	if a.Admitted {
		r.Fatalf("let in, want a refusal")
	}
	return a
}

func (r *rig) get(id string) View {
	r.Helper()
	a, err := r.svc.Get(r.Context(), backEnd, id)
	if err != nil {
		r.Fatalf("Get: %v", err)
	}
	return a.View
}

func (r *rig) check(id, code string) Checked {
	r.Helper()
	c, err := r.svc.Check(r.Context(), backEnd, id, code)
	if err != nil {
		r.Fatalf("Check: %v", err)
	}
	return c
}

// waited lets time pass for everybody in the bubble.
func waited(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// postbox is a mail server that answers as told, in turn; when nothing is told it accepts.
type postbox struct {
	mu      sync.Mutex
	answers []func(context.Context) error
	mails   []delivery.Message // every attempt
}

func (p *postbox) Send(ctx context.Context, m delivery.Message) (delivery.Receipt, error) {
	p.mu.Lock()
	p.mails = append(p.mails, m)
	var answer func(context.Context) error
	if len(p.answers) > 0 {
		answer, p.answers = p.answers[0], p.answers[1:]
	}
	p.mu.Unlock()
	receipt := delivery.Receipt{Provider: "mx.example", Code: 250, Enhanced: "2.0.0"}
	if answer == nil {
		return receipt, nil
	}
	return receipt, answer(ctx)
}

func (p *postbox) tell(answers ...func(context.Context) error) {
	p.answers = append(p.answers, answers...)
}

func (p *postbox) all() []delivery.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]delivery.Message(nil), p.mails...)
}

func failing(class delivery.Class, stage string, code int, enhanced string) func(context.Context) error {
	return func(context.Context) error {
		return &delivery.Error{Class: class, Stage: stage, Code: code, Enhanced: enhanced, Err: errors.New("told so")}
	}
}

// hanging is a process that died, as far as anybody else can see: it never comes back.
func hanging(release <-chan struct{}) func(context.Context) error {
	return func(context.Context) error { <-release; return nil }
}

var codeLine = regexp.MustCompile(`(?m)^\s*(\d{6,10}|[BCDFGHJKLMNPQRSTVWXZ]{8})\s*$`)

func codeIn(m delivery.Message) string {
	found := codeLine.FindStringSubmatch(m.Text)
	if found == nil {
		return fmt.Sprintf("no code in mail %q", m.Subject)
	}
	return found[1]
}

func wrongFor(code string) string {
	if code[0] == '9' {
		return "0" + code[1:]
	}
	return "9" + code[1:]
}
