package support

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/testmessage"
	"sendcode/internal/store"
	"sendcode/quota"
)

const TestMessageAction = "message.test"

// TestMessageTimeout bounds the transmission of a test message.
const TestMessageTimeout = testmessage.Timeout

// testMessageRule bounds the test messages of the whole service, because no other rule counts them.
var testMessageRule = quota.Rule{Name: "test", Scope: quota.Global, Limit: 1, Window: time.Minute}

// These are reasons why a test message was not tried. Pages show texts of their own.
var (
	ErrSuppressed = errors.New("support: the recipient is suppressed")
	ErrNoCarrier  = testmessage.ErrNoCarrier
)

// TestMessageLimitError means that another test message was sent less than a minute ago.
type TestMessageLimitError struct{ RetryAfter time.Duration }

func (e *TestMessageLimitError) Error() string {
	return fmt.Sprintf("support: the next test message is possible in %s", e.RetryAfter)
}

// SendTestMessage sends one message with the app's title, sender and templates to a mail address or
// phone number. It is refused for recipients that get no codes. Errors: *fault.InvalidError,
// *TestMessageLimitError, ErrSuppressed, ErrNoCarrier, fault.Unavailable.
func (ad *Administration) SendTestMessage(ctx context.Context, app, typed, locale string, act store.AuditEntry) (
	testmessage.Result, error,
) {
	set := ad.Policy.Get()
	if !set.HasApp(app) {
		return testmessage.Result{}, fault.Invalid("app", "unknown", "There is no such app.")
	}
	channel := recipient.Email
	to, err := testmessage.ParseRecipient(typed)
	if err == nil {
		channel = to.Channel()
	}
	if err := ad.Codes.ValidateRecipient(string(channel), typed); err != nil {
		return testmessage.Result{}, err
	}
	held, err := ad.HoldingSuppressions(ctx, app, to.Channel(), ad.Vault.CountedHash(to), ad.Vault.SuppressionHash(to))
	switch {
	case err != nil:
		return testmessage.Result{}, err
	case len(held) > 0:
		return testmessage.Result{}, ErrSuppressed
	}
	d, err := ad.Limiter.TakeOrLocal(ctx, quota.Request{
		ID: string(act.ID[:]), Rules: []quota.Rule{testMessageRule},
		Buckets: map[quota.Scope]string{quota.Global: quota.Bucket("console", TestMessageAction)},
	})
	switch {
	case err != nil:
		return testmessage.Result{}, err
	case !d.Admitted:
		return testmessage.Result{}, &TestMessageLimitError{d.RetryAfter()}
	}
	act.App, act.Channel, act.Recipient, act.To = app, to.Channel(), ad.Vault.CountedHash(to), to.Masked()
	act.Outcome = store.AuditBegun
	if err := ad.Store.AddAuditEntry(ctx, act); err != nil {
		return testmessage.Result{}, err
	}
	ctx = context.WithoutCancel(ctx)
	result, err := ad.TestMessages.Send(ctx, testmessage.Request{App: app, AppSettings: set.Apps[app], To: to, Locale: locale})
	if err != nil || !result.Accepted {
		ad.recordEnd(ctx, act, store.AuditFailed, "error")
	} else {
		ad.recordEnd(ctx, act, store.AuditDone, "")
	}
	if err != nil && !errors.Is(err, ErrNoCarrier) {
		err = fault.Unavailable.Wrap(fmt.Errorf("test message: %w", err))
	}
	return result, err
}

// HoldingSuppressions returns the suppressions that stop sends of an app to an address now. counted
// is the hash by which the recipient is counted. address is the hash of the address as it is
// spelled, or zero for every spelling.
func (ad *Administration) HoldingSuppressions(ctx context.Context, app string, ch recipient.Channel, counted, address recipient.Hash) (
	holding []store.Suppression, err error,
) {
	all, _, err := ad.Store.Suppressions(ctx, store.SuppressionFilter{Active: true, Recipient: &counted, Limit: maxSearchedEntries})
	for _, s := range all {
		if s.Channel == ch && (address.IsZero() || s.Address == address) && (s.App == "" || s.App == app) {
			holding = append(holding, s)
		}
	}
	return holding, err
}
