// Package pagetest stands in for everything behind the page: the use cases, with a real limiter and no mail, on a clock
// that is moved by hand. The browser tests and tools/screenshots bring the page into each of its states with it.
package pagetest

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/api"
	"sendcode/internal/code"
	"sendcode/internal/fault"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/texts"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// Code is the one that every verification has here; Letters where codes are made of letters, LongCode while an app is over its
// bound on failed checks.
const (
	Code     = "482913"
	Letters  = "BKVXRTNZ"
	LongCode = "48291376"
)

var (
	ofDigits  = code.Shape{Alphabet: code.Digits, Length: len(Code)}
	ofEight   = code.Shape{Alphabet: code.Digits, Length: len(LongCode)}
	ofLetters = code.Shape{Alphabet: code.Unambiguous, Length: len(Letters)}
)

const (
	minLife     = 2 * time.Minute
	maxAttempts = 5
)

// Codes keeps verifications in memory. Sends stay queued until Settle, unless Immediately says what becomes of them.
type Codes struct {
	api.Codes // nil: what no browser asks for

	Rules       []quota.Rule
	Immediately store.Status
	Life        time.Duration // of a code
	Proof       string        // what a right code is answered with
	Countries   []string      // that text messages go to, sorted; nil: there are no text messages

	now     func() time.Time
	limiter *quota.Memory

	held sync.RWMutex // a Send waits for it

	mu     sync.Mutex
	shape  code.Shape // of the codes that are sent now
	down   bool
	locked bool
	paused recipient.Channel
	barred map[string]time.Time // by address: until when its carrier takes nothing for it
	sends  int
	checks int
	asks   []verification.Ask
	byID   map[string]*kept
	byKey  map[string]*kept // by Idempotency-Key of an admitted send
	newest *kept
}

type kept struct {
	view     verification.View
	to       recipient.Recipient
	attempts int
	taken    string
	own      []quota.Event // its sends, and those of the verification that it replaces
}

func (c *Codes) redact(d quota.Decision, by verification.Caller, k *kept) quota.Decision {
	if k == nil {
		return verification.RedactQuota(d, by, "", verification.Sends{})
	}
	return verification.RedactQuota(d, by, c.seen(k).State, verification.Sends{Own: k.own})
}

// DefaultRules is the default policy.
func DefaultRules() []quota.Rule {
	return []quota.Rule{
		{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
		{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
		{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
	}
}

// newCodes returns a fake without verifications, under these rules and on this clock.
func newCodes(now func() time.Time, rules []quota.Rule) *Codes {
	return &Codes{Rules: rules, Life: 10 * time.Minute, now: now, limiter: quota.NewMemory(now, "test"), byID: map[string]*kept{}, byKey: map[string]*kept{},
		barred: map[string]time.Time{}, shape: ofDigits}
}

// BlockSends blocks every Send until letGo is called.
func (c *Codes) BlockSends() (letGo func()) {
	c.held.Lock()
	return c.held.Unlock
}

func (c *Codes) change(set func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set()
}

// Erase deletes every verification, as expiry does. The limiter keeps its counts.
func (c *Codes) Erase() { c.change(func() { clear(c.byID) }) }

// SetDown sets whether the database is unreachable: Send, Get and Check then fail with fault.Unavailable and change nothing.
func (c *Codes) SetDown(down bool) { c.change(func() { c.down = down }) }

// LockOut makes later sends and checks fail because of too many wrong codes.
func (c *Codes) LockOut() { c.change(func() { c.locked = true }) }

// lockedOut returns the error of a send or a check after LockOut, else nil.
func (c *Codes) lockedOut(send bool) error {
	if !c.locked {
		return nil
	}
	return &verification.TooManyChecksError{RetryAfter: 23 * time.Hour, Send: send}
}

// Sends counts the admitted ones, Checks the counted tries.
func (c *Codes) Sends() int { c.mu.Lock(); defer c.mu.Unlock(); return c.sends }

// Checks counts the tries.
func (c *Codes) Checks() int { c.mu.Lock(); defer c.mu.Unlock(); return c.checks }

// Asks returns all calls of Send, admitted or not.
func (c *Codes) Asks() []verification.Ask {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]verification.Ask(nil), c.asks...)
}

// Settle gives the newest send an outcome. A failed one is refunded.
func (c *Codes) Settle(status store.Status) { c.change(func() { c.settle(c.newest, status) }) }

func (c *Codes) settle(k *kept, status store.Status) {
	k.view.Send.Status = status
	if status == store.Queued || status == store.Sending {
		return
	}
	k.view.Send.FinishedAt = c.now()
	if status == store.Failed {
		for _, bucket := range c.bucketsOf(k.to, verification.Caller{}) {
			_ = c.limiter.Refund(context.Background(), k.taken, bucket)
		}
		k.own = slices.DeleteFunc(k.own, func(e quota.Event) bool { return e.ID == k.taken })
	}
}

func (c *Codes) bucketsOf(to recipient.Recipient, caller verification.Caller) map[quota.Scope]string {
	return map[quota.Scope]string{quota.Recipient: "to:" + to.Address(), quota.IP: "ip:" + caller.IP.String()}
}

// Send implements page.codes.
func (c *Codes) Send(ctx context.Context, ask verification.Ask) (verification.Answer, error) {
	c.held.RLock()
	defer c.held.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asks = append(c.asks, ask)
	if c.down {
		return verification.Answer{}, fault.Unavailable
	}
	if k := c.byKey[ask.Key]; k != nil {
		d, err := c.peek(ctx, k.to, ask.Caller)
		return verification.Answer{Admitted: true, Replayed: true, View: c.seen(k), Quota: c.redact(d, ask.Caller, k)}, err
	}
	old, ok := c.byID[ask.Resend]
	if ask.Resend != "" && !ok {
		return verification.Answer{}, fault.NotFound
	}
	if ok && ask.To == "" {
		ask.To, ask.Channel = old.to.Address(), string(old.to.Channel())
	}
	to, err := c.parse(ask.Channel, ask.To, ask.Country)
	if err != nil {
		return verification.Answer{}, err
	}
	if ok && !old.to.Equal(to) {
		return verification.Answer{}, fault.Invalid("to", "mismatch", "")
	}
	if c.barred[to.Address()].After(c.now()) {
		d, err := c.peek(ctx, to, ask.Caller)
		return c.refused(d, ask.Caller, old, to), err
	}
	if err := c.lockedOut(true); err != nil {
		return verification.Answer{}, err
	}
	id := sendID(c.now(), len(c.asks))
	d, err := c.limiter.Take(ctx, quota.Request{ID: id, Rules: c.Rules, Buckets: c.bucketsOf(to, ask.Caller)})
	if err != nil {
		return verification.Answer{}, err
	}
	if !d.Admitted {
		return c.refused(d, ask.Caller, old, to), nil
	}
	c.sends++
	k := c.opened(old, to, ask)
	k.own = append(k.own, quota.Event{ID: id, At: d.At})
	k.taken, k.view.Send = id, verification.SendView{ID: id, Number: k.view.Send.Number + 1, Status: store.Queued, At: c.now()}
	if ask.Key != "" {
		c.byKey[ask.Key] = k
	}
	if c.Immediately != "" {
		c.settle(k, c.Immediately)
	}
	return verification.Answer{Admitted: true, View: c.seen(k), Quota: c.redact(d, ask.Caller, k)}, nil
}

func (c *Codes) refused(d quota.Decision, by verification.Caller, old *kept, to recipient.Recipient) verification.Answer {
	return verification.Answer{Quota: c.redact(d, by, old), View: verification.View{Channel: to.Channel(), To: to.Masked()}}
}

// sendID makes a UUIDv7 from the time and n.
func sendID(now time.Time, n int) string {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(now.UnixMilli())<<16|0x7000)
	id[8], id[15] = 0x80, byte(n)
	return id.String()
}

func (c *Codes) opened(old *kept, to recipient.Recipient, ask verification.Ask) *kept {
	if old == nil || c.seen(old).State != verification.Pending || old.view.ExpiresAt.Sub(c.now()) < minLife {
		now := c.now()
		id := fmt.Sprintf("verification-%d", len(c.byID)+1)
		var own []quota.Event
		if old != nil {
			own = slices.Clone(old.own)
		}
		old = &kept{to: to, own: own, view: verification.View{
			ID: id, State: verification.Pending, Channel: to.Channel(), To: to.Masked(), CreatedAt: now, ExpiresAt: now.Add(c.Life), Code: c.shape,
			Purpose: cmp.Or(ask.Purpose, "default"),
		}}
		if ask.Purpose == "confirm" {
			old.view.Code, old.view.PurposeTitle = ofLetters, confirmTitle(texts.ForPage(cmp.Or(ask.Locale, ask.Languages)).Lang())
		}
		c.byID[id] = old
	}
	c.newest = old
	return old
}

func (c *Codes) seen(k *kept) verification.View {
	v := k.view
	v.Now, v.AttemptsRemaining = c.now(), max(0, maxAttempts-k.attempts)
	v.Send.Final = v.Send.Status != store.Queued && v.Send.Status != store.Sending
	switch {
	case v.State != verification.Pending:
	case k.attempts >= maxAttempts:
		v.State = verification.MaxAttemptsReached
	case !v.Now.Before(v.ExpiresAt):
		v.State = verification.Expired
	}
	return v
}

// Get implements page.codes.
func (c *Codes) Get(ctx context.Context, caller verification.Caller, id string) (verification.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return verification.Answer{}, fault.Unavailable
	}
	k, ok := c.byID[id]
	if !ok {
		return verification.Answer{}, fault.NotFound
	}
	d, err := c.peek(ctx, k.to, caller)
	return verification.Answer{View: c.seen(k), Quota: c.redact(d, caller, k)}, err
}

// Check implements page.codes.
func (c *Codes) Check(_ context.Context, _ verification.Caller, id, typed string) (verification.CheckResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return verification.CheckResult{}, fault.Unavailable
	}
	k, ok := c.byID[id]
	if !ok {
		return verification.CheckResult{}, fault.NotFound
	}
	if c.seen(k).State != verification.Pending {
		return verification.CheckResult{View: c.seen(k)}, nil
	}
	read, err := k.view.Code.Find(typed)
	if err != nil {
		return verification.CheckResult{}, err
	}
	if err := c.lockedOut(false); err != nil {
		return verification.CheckResult{}, err
	}
	c.checks++
	k.attempts++
	if read == Code || read == Letters || read == LongCode {
		k.view.State = verification.Approved
		return verification.CheckResult{View: c.seen(k), Valid: true, Proof: c.Proof, Known: fmt.Sprint("token-", c.checks)}, nil
	}
	return verification.CheckResult{View: c.seen(k)}, nil
}

// SendsOverloaded implements api.Codes: there is always room.
func (c *Codes) SendsOverloaded() error { return nil }

// ChecksOverloaded implements api.Codes: there is always room.
func (c *Codes) ChecksOverloaded() error { return nil }
