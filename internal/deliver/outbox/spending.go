package outbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/store"
	"sendcode/quota"
)

// SpendCap is the most that text messages may cost in a day or a month, in UTC.
type SpendCap struct {
	Name string // unique
	// Scope is quota.App or policy.CountryScope if the cap applies to each app or country
	// separately. With any other value, the cap applies to all messages together.
	Scope quota.Scope
	Per   quota.Period
	Limit int64 // millionths of the unit that prices are in
	// Reserve is the part of Limit that messages for strangers may not use.
	Reserve int64
}

// ledger counts spent amounts. Implementation: sqldb.DB.
type ledger interface {
	Spend(ctx context.Context, charges []store.SMSCharge) ([]store.SpentCharge, string, error)
	UndoSpend(ctx context.Context, charged []store.SpentCharge) error
	Spent(ctx context.Context, c store.SMSCharge) (int64, error)
}

// Budget charges the cost of a text message in the database before the message goes to a carrier.
// One SQL statement compares the cost with the rest of each cap and charges it. So all replicas
// together never exceed a cap. While the database is unavailable, no text message is sent. If the
// process dies after the charge and before the message leaves, the cost stays charged.
type Budget struct {
	ledger  ledger
	caps    []SpendCap
	logger  *slog.Logger
	stopped func(spendCap string)

	mu     sync.Mutex
	logged map[string]bool        // by key of logOnce
	read   map[string]readAccount // by account
}

// readAccount is the amount that an account had spent at the last read. A cap has one account, or
// one for each app or country.
type readAccount struct {
	used   int64
	failed bool // the read failed
	at     time.Time
}

const (
	accountReadFor = time.Second // how long a readAccount is used

	alarmRest     = 5 // a warning is logged when only a fifth of a cap is left
	maxLoggedKeys = 10_000
)

// NewBudget returns a budget that calls stopped for each message that a cap refuses.
func NewBudget(ledger ledger, caps []SpendCap, logger *slog.Logger, stopped func(spendCap string)) *Budget {
	return &Budget{ledger: ledger, caps: caps, logger: logger, stopped: stopped, logged: map[string]bool{}, read: map[string]readAccount{}}
}

// Reserve is a function for the field Reserve of sms.CarriersOptions. It charges the cost of a
// message, and returns a function that undoes the charge. If a cap refuses the message or the
// database fails, nothing is charged, the function is nil, and the error says why.
func (b *Budget) Reserve(ctx context.Context, m sms.Message, cost int64) (func(), *delivery.Error) {
	charges, caps := b.charges(m, cost)
	charged, refusedBy, err := b.ledger.Spend(ctx, charges)
	switch {
	case err != nil:
		b.logger.Warn("text message postponed: database unavailable, cost not counted", "error", err,
			logs.SeeDatabaseAway)
		return nil, &delivery.Error{Class: delivery.Temporary, Stage: sms.StageBudget}
	case refusedBy != "":
		b.stopped(caps[refusedBy].Name)
		callers := "all"
		if m.Stranger {
			callers = "strangers"
		}
		b.logOnce(refusedBy+time.Now().UTC().Format(" 2006-01-02 ")+callers, slog.LevelError,
			"spend cap reached: text messages not sent", refusedBy,
			"callers", callers, logs.SeeTextMessages)
		return nil, &delivery.Error{Class: delivery.Rejected, Stage: sms.StageBudget, Reason: sms.ReasonSpendCap}
	}
	for _, s := range charged {
		if limit := caps[s.Cap].Limit; limit > 0 && s.Used >= limit-limit/alarmRest {
			b.logOnce(s.Cap+" "+s.Period+" near", slog.LevelWarn, "spend cap used to 80 %", s.Cap,
				logs.SeeTextMessages)
		}
	}
	return func() { b.undo(ctx, charged) }, nil
}

// StrangersHoldHalf implements verification.Budget. It reports whether at least half of the amount
// that strangers may spend under a cap is spent, by strangers or other callers. The spent amount is
// at most a second old, unless a read of the amount is under way. If the database does not answer,
// StrangersHoldHalf returns false, because no text message is sent anyway.
func (b *Budget) StrangersHoldHalf(ctx context.Context, app, country string) bool {
	charges, _ := b.charges(sms.Message{App: app, Country: country, Stranger: true}, 0)
	for _, c := range charges {
		known := b.readSpent(ctx, c)
		if known.failed {
			return false // the next read would wait as long, and fail, too
		}
		if 2*known.used >= c.Limit {
			return true
		}
	}
	return false
}

// readSpent returns the spent amount of a charge's account. Within accountReadFor, only one caller
// reads the account from the database. All other callers get the result of the last read.
func (b *Budget) readSpent(ctx context.Context, c store.SMSCharge) readAccount {
	b.mu.Lock()
	known, now := b.read[c.Cap], time.Now()
	if now.Sub(known.at) < accountReadFor {
		b.mu.Unlock()
		return known
	}
	b.read[c.Cap] = readAccount{used: known.used, failed: known.failed, at: now}
	b.mu.Unlock()
	used, err := b.ledger.Spent(ctx, c)
	known = readAccount{used: used, failed: err != nil, at: time.Now()}
	b.mu.Lock()
	b.read[c.Cap] = known
	b.mu.Unlock()
	return known
}

// charges returns a charge for each cap, and a map from each charge's account to its cap. Strangers
// share an account with all other callers, but have a lower limit.
func (b *Budget) charges(m sms.Message, cost int64) ([]store.SMSCharge, map[string]SpendCap) {
	var all []store.SMSCharge
	caps := map[string]SpendCap{}
	for _, c := range b.caps {
		account := c.Name
		switch c.Scope {
		case quota.App:
			account += " app " + m.App
		case policy.CountryScope:
			account += " country " + m.Country
		}
		caps[account] = c
		charge := store.SMSCharge{Cap: account, Per: c.Per, Amount: cost, Limit: c.Limit}
		if m.Stranger {
			charge.Limit -= c.Reserve
		}
		all = append(all, charge)
	}
	return all, caps
}

// undo refunds a charge. If the database fails, the amount stays spent.
func (b *Budget) undo(ctx context.Context, charged []store.SpentCharge) {
	if err := b.ledger.UndoSpend(context.WithoutCancel(ctx), charged); err != nil {
		b.logger.Warn("could not refund cost: it stays charged", "error", err, logs.SeeDatabaseAway)
	}
}

// logOnce logs a line once for each key. After maxLoggedKeys keys it forgets all keys, so lines may
// repeat.
func (b *Budget) logOnce(key string, level slog.Level, what, account string, more ...any) {
	b.mu.Lock()
	known := b.logged[key]
	if len(b.logged) >= maxLoggedKeys {
		clear(b.logged)
	}
	b.logged[key] = true
	b.mu.Unlock()
	if !known {
		b.logger.Log(context.Background(), level, what, append([]any{"cap", account}, more...)...)
	}
}
