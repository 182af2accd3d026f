// Package pagetest brings the page and the widget into many of their states. It runs the real use
// cases, with the database and the limiter in memory, on a clock that a test moves. The test also
// decides the outcome of each message. The browser tests and tools/screenshots use the package.
package pagetest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/run/app/core"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// Code is the text that a test types for the right code of every verification. A test types Letters
// if codes consist of letters, and LongCode while an app has too many failed checks.
const (
	Code     = "482913"
	Letters  = "BKVXRTNZ"
	LongCode = "48291376"
)

var (
	sixDigits    = code.Format{Alphabet: code.Digits, Length: len(Code)}
	eightDigits  = code.Format{Alphabet: code.Digits, Length: len(LongCode)}
	letterFormat = code.Format{Alphabet: code.Unambiguous, Length: len(Letters)}
)

// Codes has the use cases. It replaces random values (codes, IDs, tokens and proofs) by names that
// a test knows. A send stays in flight until Settle, unless Immediately sets the outcome.
type Codes struct {
	*verificationtest.Process
	Immediately store.Status
	Proof       string // the proof of approvals; empty: the real one

	db     *sqlitetest.DB
	began  time.Time
	texts  verification.LocaleChooser
	sendMu sync.RWMutex // locked while BlockSends blocks Send

	mu           sync.Mutex
	offered      policy.Set
	life         time.Duration
	format       code.Format // of later codes
	locked       bool
	sends        int
	checks       int
	sendRequests []verification.Request
	names        []string     // the IDs of verifications: the nth is that of "verification-n"
	rightCodes   []string     // their codes
	newest       *store.Work  // nil: nothing was sent
	ended        bool         // the newest send has an outcome
	nextStatus   store.Status // the outcome of later messages
	hold         time.Duration
}

// newCodes returns the use cases with these rules and this clock, without verifications.
func newCodes(now func() time.Time, rules []quota.Rule, ring *keys.Ring, logger *slog.Logger) (*Codes, error) {
	db, err := sqlitetest.New(now)
	if err != nil {
		return nil, err
	}
	c := &Codes{db: db, began: now(), life: 10 * time.Minute, format: sixDigits}
	c.offered = verificationtest.BuiltIn()
	c.offered.SuppressFor, c.offered.Numbers = 0, policy.ServedNumbers{}
	c.offered.Apps = map[string]policy.App{"shop": {Title: "Shop"}, "news": {Title: "News"}, "branded": {Title: "Shop"}}
	names := []string{policy.DefaultPurpose, "gift", "confirm"}
	for _, name := range names {
		c.offered.Purposes[name] = policy.Purpose{
			Name: name, PolicyPurposes: names,
			Policy: quota.Policy{Name: "default", Rules: rules},
		}
	}
	c.Process = verificationtest.New(verificationtest.Settings{
		Set:   c.policySet(),
		Vault: keys.Vault{IndexKey: []byte("an index key of 32 bytes or more"), Ring: ring},
	},
		core.Dependencies{
			DB: database{db, c}, Sender: provider{Codes: c}, Carrier: carrier{Codes: c}, Logger: logger, Now: now,
			WrapOutbox: func(o *outbox.Outbox) verification.Outbox { return byHand{o, c} },
		})
	c.texts, c.Texts = c.Texts, nil
	return c, nil
}

// policySet returns the policies with the test's changes.
func (c *Codes) policySet() policy.Set {
	set := c.offered
	set.Purposes = map[string]policy.Purpose{}
	for name, p := range c.offered.Purposes {
		p.TTL, p.CodeLength, p.Alphabet = c.life, c.format.Length, c.format.Alphabet
		if name == "confirm" {
			p.CodeLength, p.Alphabet, p.Titles = letterFormat.Length, letterFormat.Alphabet, message.NewPurposeTitles(confirmTitles)
		}
		set.Purposes[name] = p
	}
	return set
}

func (c *Codes) change(set func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set()
	c.Change(c.policySet())
}

// SetLife sets how long later codes are valid.
func (c *Codes) SetLife(d time.Duration) { c.change(func() { c.life = d }) }

// formatAs sets what later codes look like.
func (c *Codes) formatAs(s code.Format) { c.change(func() { c.format = s }) }

// SetAccent sets the accent colour of the app shop.
func (c *Codes) SetAccent(accent string) {
	c.change(func() { c.offered.Apps["shop"] = policy.App{Title: "Shop", Brand: message.NewBrand("", accent, "")} })
}

// Pause pauses the channel ch, and ends the pause of every other channel. If ch is "", no channel
// is paused.
func (c *Codes) Pause(ch recipient.Channel) {
	c.change(func() {
		c.offered.Pauses = nil
		if ch != "" {
			c.offered.Pauses = []policy.Pause{{Channel: ch}}
		}
	})
}

// SetCountries sets the countries that text messages go to. The caller sorts them. Without
// countries, text messages are off.
func (c *Codes) SetCountries(countries ...string) {
	c.change(func() {
		c.Texts, c.offered.Numbers.Countries = nil, countries
		if len(countries) > 0 {
			c.Texts = c.texts
		}
	})
}

// BlockSends blocks every Send until letGo is called.
func (c *Codes) BlockSends() (letGo func()) {
	c.sendMu.Lock()
	return c.sendMu.Unlock
}

// Erase deletes every verification, as expiry does. The counts in the limiter stay.
func (c *Codes) Erase() {
	if err := c.db.SetBack(c.began); err != nil {
		panic(err)
	}
}

// SetDown sets whether the database is unreachable.
func (c *Codes) SetDown(down bool) {
	c.db.SetFault(nil)
	if down {
		c.db.Fail(sqlitetest.Down)
	}
}

// LockOut makes the service refuse later sends and checks, as after too many wrong codes.
func (c *Codes) LockOut() { c.change(func() { c.locked = true }) }

// Sends returns the number of admitted sends.
func (c *Codes) Sends() int { c.mu.Lock(); defer c.mu.Unlock(); return c.sends }

// Checks returns the number of counted checks.
func (c *Codes) Checks() int { c.mu.Lock(); defer c.mu.Unlock(); return c.checks }

// Verifications returns the number of verifications.
func (c *Codes) Verifications() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.names) }

// Verification returns the verification with the index n, as it is stored now. The database must be
// up.
func (c *Codes) Verification(n int) verification.View {
	a, err := c.Get(context.Background(), verification.Caller{App: "shop", Kind: verification.BackEnd, Trust: verification.SaidKnown},
		fmt.Sprintf("verification-%d", n+1))
	if err != nil {
		panic(err)
	}
	return a.View
}

// SendRequests returns all calls of Send, admitted or not.
func (c *Codes) SendRequests() []verification.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sendRequests)
}

// Wait returns how long the next mail to an address must wait now.
func (c *Codes) Wait(address string) (time.Duration, error) {
	a, err := c.Quota(context.Background(), verification.Caller{App: "shop", Kind: verification.BackEnd, Trust: verification.SaidKnown},
		string(recipient.Email), address, "")
	return a.Quota.RetryAfter(), err
}

// Settle gives the newest send an outcome, which can't change. A text message may later also get a
// receipt, Delivered or Undelivered.
func (c *Codes) Settle(status store.Status) { c.settle(status, 0) }

// FailByCarrier makes the newest send fail, because its carrier accepts no more messages to the
// recipient for the duration d.
func (c *Codes) FailByCarrier(d time.Duration) { c.settle(store.Failed, d) }

// ExpectReports makes providers of mails send reports, so that the state Sent of a mail is not
// final.
func (c *Codes) ExpectReports() {
	c.change(func() { c.offered.Reports = map[recipient.Channel]bool{recipient.Email: true} })
}

// Bounce makes a provider report that the newest send, a mail, bounced for good.
func (c *Codes) Bounce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	event := store.ProviderEvent{Send: c.newest.Send.ID, Kind: store.ProviderBounced, Provider: "postmark", ForGood: true}
	if _, err := c.db.IngestProviderEvent(context.Background(), event, store.NewSuppression{}); err != nil {
		panic(err)
	}
}

// settle gives the newest send an outcome and returns the send. It does not end the send if the
// status is one in flight.
func (c *Codes) settle(status store.Status, hold time.Duration) store.Send {
	receipt := status == store.Delivered || status == store.Undelivered
	c.mu.Lock()
	work, ended := *c.newest, c.ended
	if ended && !receipt && status != c.nextStatus {
		panic("a send that ended as " + string(c.nextStatus) + " can't become " + string(status))
	}
	c.nextStatus, c.hold, c.ended = status, hold, !status.InFlight()
	c.mu.Unlock()
	if status.InFlight() {
		work.Send.Status = status
		return work.Send
	}
	if !ended {
		work.Send = c.Outbox.Submit(context.Background(), work, time.Minute)
	}
	if receipt {
		if changed, err := c.db.RecordReceipt(context.Background(), work.Send.ID, status); err != nil || !changed {
			panic(fmt.Sprint("no receipt of such a message: ", err))
		}
		work.Send.Status = status
	}
	return work.Send
}

// byHand is an outbox in which a send stays until the test decides the outcome.
type byHand struct {
	verification.Outbox
	codes *Codes
}

// Submit implements verification.Outbox.
func (b byHand) Submit(_ context.Context, w store.Work, _ time.Duration) store.Send {
	c := b.codes
	right, err := c.Vault.DeriveCode(w.Verification)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	c.newest, c.ended = &w, false
	if !slices.Contains(c.names, w.Verification.ID) {
		c.names, c.rightCodes = append(c.names, w.Verification.ID), append(c.rightCodes, right)
	}
	status := c.Immediately
	c.mu.Unlock()
	if status == "" {
		status = store.Queued
	}
	return c.settle(status, 0)
}

// outcome returns what a server or a carrier answers to a message, as Codes.nextStatus says.
func (c *Codes) outcome() (delivery.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	result := delivery.Result{Provider: "mx.example", ReplyCodes: "250 2.0.0"}
	switch c.nextStatus {
	case store.Failed:
		return result, &delivery.Error{Class: delivery.Rejected, Stage: "data", Status: 554, Hold: c.hold}
	case store.Unknown:
		return result, &delivery.Error{Class: delivery.Unknown, Stage: "data"}
	}
	return result, nil
}

// Mails go to a provider, and text messages to a carrier. Codes.nextStatus decides how each message
// ends.
type (
	provider struct {
		delivery.Unlimited
		*Codes
	}
	carrier struct {
		delivery.Unlimited
		*Codes
	}
)

// Send implements outbox.MailSender.
func (p provider) Send(context.Context, delivery.Mail) (delivery.Result, error) {
	return p.outcome()
}

// Send implements outbox.Carrier.
func (c carrier) Send(context.Context, sms.Message) (delivery.Result, error) {
	r, err := c.outcome()
	return delivery.Result{Provider: r.Provider, ReplyCodes: r.ReplyCodes}, err
}

// database is the database in memory. It adds up the counted checks. After LockOut it reports a
// lockout for all callers.
type database struct {
	core.Database
	codes *Codes
}

func (d database) lockedOut() (out store.Lockout) {
	d.codes.mu.Lock()
	defer d.codes.mu.Unlock()
	if d.codes.locked {
		out.Wait = 23 * time.Hour
	}
	return out
}

// Begin implements verification.Store.
func (d database) Begin(ctx context.Context, in store.Intent) (store.BeginAnswer, error) {
	if out := d.lockedOut(); out.Wait > 0 {
		return store.BeginAnswer{Lockout: out}, nil
	}
	return d.Database.Begin(ctx, in)
}

// Lockout implements verification.Store.
func (d database) Lockout(context.Context, store.Verification) (store.Lockout, error) {
	return d.lockedOut(), nil
}

// Check implements verification.Store.
func (d database) Check(ctx context.Context, r store.CheckRequest) (checked store.CheckAnswer, err error) {
	if out := d.lockedOut(); out.Wait > 0 {
		v, _, now, err := d.Verification(ctx, r.ID)
		return store.CheckAnswer{Verification: v, Now: now, Lockout: out}, err
	}
	checked, err = d.Database.Check(ctx, r)
	if checked.Counted {
		d.codes.mu.Lock()
		defer d.codes.mu.Unlock()
		d.codes.checks++
	}
	return checked, err
}

// named returns the name of the verification with this ID; realID returns the ID for a name. Both
// return any other text unchanged.
func (c *Codes) named(id string) string {
	if n := slices.Index(c.names, id); n >= 0 {
		return fmt.Sprintf("verification-%d", n+1)
	}
	return id
}

func (c *Codes) realID(name string) string {
	for n, id := range c.names {
		if name == fmt.Sprintf("verification-%d", n+1) {
			return id
		}
	}
	return name
}

// Send implements api.CodeService.
func (c *Codes) Send(ctx context.Context, request verification.Request) (verification.Answer, error) {
	c.sendMu.RLock()
	defer c.sendMu.RUnlock()
	c.mu.Lock()
	c.sendRequests = append(c.sendRequests, request)
	request.Resend = c.realID(request.Resend)
	c.mu.Unlock()
	a, err := c.Process.Send(ctx, request)
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.Admitted && !a.Replayed {
		c.sends++
	}
	a.View.ID = c.named(a.View.ID)
	return a, err
}

// Get implements api.CodeService.
func (c *Codes) Get(ctx context.Context, caller verification.Caller, id string) (verification.Answer, error) {
	c.mu.Lock()
	real := c.realID(id)
	c.mu.Unlock()
	a, err := c.Process.Get(ctx, caller, real)
	a.View.ID = id
	return a, err
}

// Check implements api.CodeService.
func (c *Codes) Check(ctx context.Context, caller verification.Caller, id,
	typed string,
) (verification.CheckResult, error) {
	c.mu.Lock()
	real := c.realID(id)
	if n := slices.Index(c.names, real); n >= 0 {
		typed = translateCode(typed, c.rightCodes[n])
	}
	c.mu.Unlock()
	result, err := c.Process.Check(ctx, caller, real, typed)
	result.ID = id
	if result.Valid {
		result.KnownToken = fmt.Sprint("token-", c.Checks())
		if c.Proof != "" {
			result.Proof = c.Proof
		}
	}
	return result, err
}

// translateCode returns the right code if the text is Code, Letters or LongCode and has the length
// of the right code; otherwise it returns the text.
func translateCode(typed, right string) string {
	for _, as := range []struct {
		name string
		code.Format
	}{{Code, sixDigits}, {LongCode, eightDigits}, {Letters, letterFormat}} {
		if read, err := as.Find(typed); err == nil && read == as.name && len(right) == as.Length {
			return right
		}
	}
	return typed
}
