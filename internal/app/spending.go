package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sendcode/internal/config"
	"sendcode/internal/delivery"
	"sendcode/internal/sms"
	"sendcode/internal/store"
	"sendcode/quota"
)

// budget sets the cost of text messages aside in the log before a carrier hears of them. The log's own statement decides, so
// parallel sends of all replicas never pass a cap; while it is away nothing is sent. A crash between the two leaves a cost
// spent that was not: caps are reached early, never late.
type budget struct {
	ledger interface {
		Spend(ctx context.Context, charges []store.Charge) ([]store.Spent, string, error)
		Unspend(ctx context.Context, spent []store.Spent) error
	}
	caps   []config.SpendCap
	logger *slog.Logger
	closed func(spendCap string) // hears of each message that a cap stopped

	mu   sync.Mutex
	told map[string]bool // what was said of an account and period, once each
}

const (
	alarmAt = 80 // percent of a cap (SMS-5)
	maxTold = 10_000
)

// reserve is sms.Options.Reserve; nil where there is no cap.
func (b *budget) reserve(ctx context.Context, m sms.Message, cost int64) (func(), *sms.Error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	charges, names := b.charges(m, cost)
	spent, refusedBy, err := b.ledger.Spend(ctx, charges)
	switch {
	case err != nil:
		b.logger.Warn("a text message waits for the log, which knows what may be spent", "error", err)
		return nil, &sms.Error{Class: delivery.Temporary, Stage: sms.StageBudget}
	case refusedBy != "":
		b.closed(names[refusedBy])
		b.say(refusedBy+time.Now().UTC().Format(" 2006-01-02"), slog.LevelError, "a spend cap is reached: text messages are not sent", refusedBy)
		return nil, &sms.Error{Class: delivery.Rejected, Stage: sms.StageBudget, Reason: sms.ReasonSpend}
	}
	for _, s := range spent {
		if s.Limit > 0 && s.Used >= s.Limit/100*alarmAt {
			b.say(s.Account+" "+s.Period+" near", slog.LevelWarn, "four fifths of a spend cap are used", s.Account)
		}
	}
	return func() { b.back(ctx, spent) }, nil
}

// charges are one for each cap, and the caps' names by account.
func (b *budget) charges(m sms.Message, cost int64) ([]store.Charge, map[string]string) {
	var all []store.Charge
	names := map[string]string{}
	for _, c := range b.caps {
		account := c.Name
		switch c.Scope {
		case quota.App:
			account += " app " + m.App
		case quota.Country:
			account += " country " + m.Country
		}
		names[account] = c.Name
		all = append(all, store.Charge{Account: account, Per: c.Per, Amount: cost, Limit: c.Limit})
	}
	return all, names
}

// back takes a cost back that did not come to be. What fails stays spent, on the safe side.
func (b *budget) back(ctx context.Context, spent []store.Spent) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
	defer cancel()
	if err := b.ledger.Unspend(ctx, spent); err != nil {
		b.logger.Warn("a cost that did not come to be stays counted", "error", err)
	}
}

// say tells a thing once.
func (b *budget) say(key string, level slog.Level, what, account string) {
	b.mu.Lock()
	known := b.told[key]
	if len(b.told) >= maxTold {
		clear(b.told)
	}
	b.told[key] = true
	b.mu.Unlock()
	if !known {
		b.logger.Log(context.Background(), level, what, "cap", account)
	}
}
