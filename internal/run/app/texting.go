package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailbox"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/http/api"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// openCarriers sends text messages to the dev mailbox if no carrier is configured and mails go
// there. Without a carrier, but with a mail server, there are no text messages.
func (a *App) openCarriers() error {
	if !a.cfg.SMSEnabled() {
		return nil
	}
	texts, err := NewTextRenderer(a.cfg, "")
	if err != nil {
		return err
	}
	a.texts = texts
	if a.cfg.SMSToDevMailbox() {
		a.carrier = mailboxCarrier{box: a.mailbox}
		return nil
	}
	options := sms.CarriersOptions{
		Sender: a.cfg.SMS.Senders["default"], Senders: a.cfg.SMS.Senders,
		OnHealthChange: a.healthLogger("carrier", "carrier"),
	}
	observe, logCode := a.deliveryObserver(recipient.SMS), newCarrierCodeLogger(a.logger)
	options.OnAttempt = func(ctx context.Context, carrier string, fail *delivery.Error, took time.Duration) {
		observe(ctx, carrier, fail, took)
		logCode(carrier, fail)
	}
	if a.cfg.PublicURL != "" {
		options.CallbackURL = ReceiptAddresses(a.cfg).URL
	}
	var caps []outbox.SpendCap
	for _, c := range a.cfg.SMS.Spend {
		caps = append(caps, outbox.SpendCap(c))
		a.metrics.InitSpendCap(c.Name)
	}
	if len(caps) > 0 {
		budget := outbox.NewBudget(a.db, caps, a.logger, a.metrics.SpendRefused)
		options.Reserve, a.budget = budget.Reserve, budget
	}
	a.carriers = sms.NewCarriers(CarrierRoutes(a.cfg), options)
	a.carrier = a.carriers
	a.metrics.RegisterCarriers(a.carriers.Health)
	a.metrics.RegisterPausedPrefixes(func(ctx context.Context) (int, error) {
		list, _, err := a.db.PrefixPauses(ctx, store.PrefixPauseFilter{Active: true, Limit: 200})
		return len(list), err
	})
	return nil
}

// CarrierRoutes keeps the order of the configuration.
func CarrierRoutes(cfg config.Config) (routes []sms.Route) {
	for _, c := range cfg.SMS.Carriers {
		routes = append(routes, sms.Route{
			Carrier: c.Open(), Prefixes: c.Prefixes, Prices: c.Prices, DefaultPrice: c.Prices["default"],
			Polled: c.Polled(),
		})
	}
	return routes
}

const maxLoggedCarrierCodes = 100

// newCarrierCodeLogger returns a function that logs the error code of each temporary failure once
// for each carrier, because it can show a mistake of the operator. It logs at most
// maxLoggedCarrierCodes codes. Only the log has these codes: the message goes to the next carrier,
// and the send's row has only the last carrier's answer.
func newCarrierCodeLogger(logger *slog.Logger) func(carrier string, fail *delivery.Error) {
	var mu sync.Mutex
	logged := map[string]bool{}
	return func(carrier string, fail *delivery.Error) {
		if fail == nil || fail.Class != delivery.Temporary || fail.Code == "" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		key := carrier + " " + fail.Code
		if logged[key] || len(logged) == maxLoggedCarrierCodes {
			return
		}
		logged[key] = true
		logger.Warn("a carrier refuses messages for a reason other than the number and the text; the next carrier gets them",
			"carrier", carrier, "reply", fail.ReplyCodes(), logs.SeeTextMessages)
	}
}

// receiptSources returns nil if there are no carriers.
func (a *App) receiptSources() outbox.ReceiptSources {
	if a.carriers == nil {
		return nil // a nil interface, and not an interface that contains a nil pointer
	}
	return a.carriers
}

// These are the delays between a message and its first receipt poll, which asks the carrier for the
// message's receipt. The delay is long if the carrier usually posts the receipt, so that a poll is
// seldom needed.
const (
	earlyReceiptPollDelay = 30 * time.Second
	lateReceiptPollDelay  = 10 * time.Minute
)

// receiptPollDelay returns 0 if no carrier can be polled.
func (a *App) receiptPollDelay() time.Duration {
	switch {
	case !slices.ContainsFunc(a.cfg.SMS.Carriers, config.SMSCarrier.Polled):
		return 0
	case a.cfg.PublicURL == "":
		return earlyReceiptPollDelay
	}
	return lateReceiptPollDelay
}

// prefixWatch has the settings for pausing prefixes. It is zero without carriers: texts then go to
// the dev mailbox, which costs nothing.
func (a *App) prefixWatch() store.PrefixWatch {
	if len(a.cfg.SMS.Carriers) == 0 {
		return store.PrefixWatch{}
	}
	var life time.Duration
	for _, p := range a.cfg.Purposes {
		life = max(life, p.Life(recipient.SMS))
	}
	w := a.cfg.SMS.Watch.PrefixWatch()
	w.TTL, w.Exempt = life, a.cfg.SMS.Unwatched
	return w
}

// checkTexts returns an error if an app's name can't be used in messages (message.CheckName),
// because every send of that app would fail. If there are text messages, it also renders each text
// with the longest code, and fails if that doesn't work or gives too many segments.
func (a *App) checkTexts(cfg config.Config, own map[string]*message.TextRenderer) error {
	longest := verification.LongCodeLength // the length of codes during an attack
	for _, p := range cfg.Purposes {
		longest = max(longest, p.Code.Length)
	}
	var errs []error
	for _, app := range cfg.Apps {
		name := cfg.TitleOf(app)
		if err := message.CheckName(name); err != nil {
			return fmt.Errorf("the name of the app %q can't be used in messages; give the app a title: %w", app.Name, err)
		}
		if a.texts != nil {
			errs = append(errs, cmp.Or(own[app.Name], a.texts).CheckLength(message.Data{App: name, Hash: app.SMSHash},
				app.SMSOrigin, longest))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("text messages:\n%w", err)
	}
	return nil
}

type mailboxCarrier struct {
	delivery.Unlimited
	box *mailbox.Mailbox
}

const mailboxCarrierName = "mailbox" // in the database

func (mc mailboxCarrier) Send(_ context.Context, m sms.Message) (delivery.Result, error) {
	mc.box.AddText(m.ID, m.To, m.Text, m.Code)
	return delivery.Result{Provider: mailboxCarrierName, CarrierID: m.ID}, nil
}

func ReceiptAddresses(cfg config.Config) api.ReceiptAddresses {
	return api.ReceiptAddresses{PublicURL: cfg.PublicURL, Key: cfg.IndexKeyBytes()}
}
