// Package support has the actions of administrators. On recipients and codes: reset, export, erase,
// cancel, resend, reveal, suppress, and lift a suppression. Others: lift the pause of a prefix,
// send a test message, and accept a subscription of a provider's topic. Each is recorded in the
// audit log before it takes effect, or in the same transaction. Package console checks the
// administrator's role before it calls this package.
//
// Resends go through package verification, so both gates decide them.
package support

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/testmessage"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// Store is implemented by sqldb.DB.
type Store interface {
	AddAuditEntry(ctx context.Context, a store.AuditEntry) error
	AuditEntries(ctx context.Context, f store.AuditFilter) ([]store.AuditEntry, error)
	ResetCounters(ctx context.Context, buckets []store.SendBucket, act store.AuditEntry) error
	CancelByAdministrator(ctx context.Context, id string, act store.AuditEntry, tell ...store.NewEvent) (bool, error)
	Erase(ctx context.Context, h recipient.Hash, keep time.Duration, act store.AuditEntry) error
	ExportPerson(ctx context.Context, h recipient.Hash, limit int, page func(store.ExportedTable, []store.ExportedRow) error) error
	Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error)
	Suppress(ctx context.Context, s store.Suppression, lasts time.Duration, act *store.AuditEntry) (store.Suppression,
		bool, error)
	Suppressions(ctx context.Context, f store.SuppressionFilter) (list []store.Suppression, now time.Time, err error)
	LiftSuppressions(ctx context.Context, l store.LiftSuppressionsRequest, act *store.AuditEntry) ([]store.Suppression, error)
	LiftPrefixPause(ctx context.Context, l store.LiftPauseRequest, act *store.AuditEntry) (store.PrefixPause, bool, error)
	Lockout(ctx context.Context, v store.Verification) (store.Lockout, error)
}

// verificationService has the use cases that administrators share with back ends. Implementation:
// *verification.Service.
type verificationService interface {
	Send(ctx context.Context, ask verification.Request) (verification.Answer, error)
	ValidateRecipient(channel, to string) error
	RecipientQuota(ctx context.Context, app string, ch recipient.Channel, purpose string, h recipient.Hash,
		class store.Class) (quota.Decision, error)
	DropCachedLockouts(app string, ch recipient.Channel, h recipient.Hash)
}

// limiter counts test messages, and resets buckets. Implementation: *gates.Gates.
type limiter interface {
	TakeOrLocal(ctx context.Context, r quota.Request) (quota.Decision, error)
	Reset(ctx context.Context, buckets ...string) error
}

// testMessageSender is implemented by testmessage.Sender.
type testMessageSender interface {
	Send(ctx context.Context, r testmessage.Request) (testmessage.Result, error)
}

// MailRenderer is implemented by *message.MailRenderer.
type MailRenderer interface {
	Render(message.RenderRequest) (message.MailTexts, error)
	Languages(app string) []string
}

// TextRenderer is implemented by *message.TextRenderer.
type TextRenderer interface {
	Render(message.RenderRequest) (message.RenderedText, error)
	Languages(app string) []string
}

type Dependencies struct {
	Policy       *policy.CurrentSet
	Vault        keys.Vault
	Now          func() time.Time // an estimate of the database's clock, which may step
	Events       webhook.Events
	Mails        MailRenderer
	Texts        TextRenderer // nil: there are no text messages
	NotMeURL     string       // beginning of the URL in mails where a recipient reports the mail; empty: none
	TestMessages testMessageSender
	Store        Store
	Codes        verificationService
	Limiter      limiter
	Logger       *slog.Logger
}

// Administration carries out the actions of administrators. Safe for concurrent use.
type Administration struct{ Dependencies }

func New(p Dependencies) *Administration { return &Administration{p} }

// AppsAndPurposes returns sorted names.
func (ad *Administration) AppsAndPurposes() (apps, purposes []string) {
	set := ad.Policy.Get()
	return slices.Sorted(maps.Keys(set.Apps)), slices.Sorted(maps.Keys(set.Purposes))
}

// Paused returns the pause of a purpose's sends on a channel, or false if there is none.
func (ad *Administration) Paused(ch recipient.Channel, purpose string) (policy.Pause, bool) {
	return ad.Policy.Get().Paused(ch, purpose)
}

// HashRecipient returns the hash by which the database counts and searches a recipient. Error:
// *fault.InvalidError.
func (ad *Administration) HashRecipient(channel, to string) (recipient.Hash, error) {
	r, err := verification.ParseRecipient(channel, to, "")
	if err != nil {
		return recipient.Hash{}, err
	}
	return ad.Vault.CountedHash(r), nil
}
