package verification

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/internal/verify/humancheck"
	"sendcode/quota"
)

// Answer is the answer to a send, a read (Get, Quota) or a cancellation. A refused send is an
// Answer, too, not an error: Admitted is false, and View has only the recipient, the channel and
// the purpose.
type Answer struct {
	Admitted bool
	Replayed bool // an earlier request with this Idempotency-Key was admitted, so this request did nothing
	View     View
	Quota    quota.Decision
	// AsksNext is true if the next send would be asked for a human check.
	AsksNext bool
	// HumanCheck is the human check that a refused request needs, or nil if passing one would not
	// admit it. With HumanCheck, Quota has the rules that refuse a request without a pass, and
	// CheckFailed says why the request's token was not accepted. CheckFailed is empty if there was
	// no token, or if the vendor was not available.
	HumanCheck  *humancheck.Offer
	CheckFailed humancheck.Reason
}

// View has the part of a verification that a caller may see: never the code or the full recipient.
type View struct {
	ID      string
	State   State
	Channel recipient.Channel
	To      string // masked
	Purpose string
	// title of the purpose in the verification's language; "" if there is none
	PurposeTitle string
	store.Labels
	CreatedAt         time.Time
	ExpiresAt         time.Time
	AttemptsRemaining int
	Send              SendView
	Now               time.Time // on the database's clock
	// RecipientHash is the hash of the address as spelled, the same as sub in a proof. It is empty
	// if the address was erased or can't be decrypted. The API shows it only to secret keys.
	RecipientHash string
	Details       string      // what the code confirms; the API shows it to secret keys alone
	Test          bool        // a test recipient: nothing is sent, and its code is configured
	CodeFormat    code.Format // length and alphabet of the code, for the page's input
}

// SendView is one send of a verification: the request's own send in the answer to a request for a
// code, and the newest one in the answer to Get or Cancel. The result of a check has none: Number
// is 0.
type SendView struct {
	ID     string
	Number int
	// Status is Undelivered also for a mail that bounced for good. Its row keeps the status Sent or
	// Unknown.
	Status     store.Status
	Final      bool   // the status does not change any more
	Reason     string // with Failed and Unknown; for secret keys and the administrator
	Counts     bool   // false: its place in the recipient's quota was given back
	At         time.Time
	FinishedAt time.Time // zero while in flight
}

// address is the hash of the address as spelled, or zero: then view decrypts the address and
// computes it.
func (s *readService) view(v store.Verification, send store.Send, now time.Time, address recipient.Hash) View {
	format, test := s.codeFormat(v)
	if address.IsZero() {
		address, _ = s.Vault.AddressHashOfVerification(v)
	}
	set := s.Policy.Get()
	status, final := send.StatusForApp(set.Reports[v.Channel])
	return View{
		RecipientHash: address.StringOrEmpty(),
		Test:          test, CodeFormat: format, Details: v.Details,
		ID: v.ID, State: StateOf(v, now), Channel: v.Channel, To: v.To, Purpose: v.Purpose, Labels: v.Labels,
		PurposeTitle: set.Purposes[v.Purpose].Titles.ForLocaleOrEmpty(v.Locale),
		CreatedAt:    v.CreatedAt, ExpiresAt: v.ExpiresAt,
		AttemptsRemaining: max(0, v.MaxAttempts-v.Attempts), Now: now,
		Send: SendView{
			ID: send.ID.String(), Number: send.Number, Status: status, Final: final, Reason: send.Reason,
			Counts: send.Counts, At: send.LoggedAt,
			FinishedAt: send.FinishedAt,
		},
	}
}

type storedVerification struct {
	store.Verification
	readAt time.Time // on the database's clock
}

func (s storedVerification) state() State { return StateOf(s.Verification, s.readAt) }

// isJoined reports whether a resend that names s sends its code again. Otherwise the resend opens
// another verification, with a code that lives for life.
func (s storedVerification) isJoined(life time.Duration) bool {
	return s.ID != "" && s.state() == Pending && s.ExpiresAt.Sub(s.readAt) >= MinResendLife(life)
}

// Errors of lookup: fault.NotFound, also if the caller may not read the verification (mayRead);
// fault.Unavailable.
func (s *readService) lookup(ctx context.Context, c Caller, id string) (storedVerification, error) {
	v, now, err := s.Rows.VerificationRow(ctx, id)
	if err == nil && !c.mayRead(v) {
		err = fault.NotFound
	}
	if err != nil {
		return storedVerification{}, err
	}
	return storedVerification{v, now}, nil
}

// A browser may not read a verification that a back end opened. Our page may read only
// verifications whose channel and purpose it offers.
func (c Caller) mayRead(v store.Verification) bool {
	return v.App == c.App && (c.Kind == BackEnd || v.Holder == "") && c.Page.HasChannel(v.Channel) && c.Page.HasPurpose(v.Purpose)
}

// Get returns a verification and the current states of the recipient's rules, or no states if the
// verification's purpose is no longer configured. Errors: fault.NotFound, fault.Unavailable.
func (s *readService) Get(ctx context.Context, c Caller, id string) (Answer, error) {
	v, newest, now, err := s.Rows.Verification(ctx, id)
	if err == nil && !c.mayRead(v) {
		err = fault.NotFound
	}
	if err != nil {
		return Answer{}, err
	}
	address, _ := s.Vault.AddressHashOfVerification(v) // zero if it was erased
	view := s.view(v, newest, now, address)
	set := s.Policy.Get()
	p, err := FindPurpose(set, v.Purpose)
	if err != nil { // the purpose was removed from the configuration
		return Answer{View: view}, nil
	}
	rules := s.rulesFor(set, c, v.Class, p, v.Channel, address)
	plan := buckets.NewPlan(buckets.Subject{
		App: c.App, IP: c.IP, Channel: v.Channel, Recipient: v.Recipient, Groups: s.recipientGroups(rules, v), Purpose: p, Class: v.Class,
	}, rules)
	current, err := s.peek(ctx, plan)
	if err != nil {
		return Answer{}, err
	}
	visible := s.redact(ctx, plan, current, c, StateOf(v, now), v.IDsWithReplaced())
	return Answer{View: view, Quota: visible, AsksNext: s.asksNext(c.Kind, plan, current.Decision)}, nil
}

// recipientGroups returns the country and prefix of a phone number, or zero if no rule counts by
// them or if the recipient can't be decrypted.
func (s *readService) recipientGroups(rules []quota.Rule, v store.Verification) buckets.RecipientGroups {
	if !slices.ContainsFunc(rules, func(r quota.Rule) bool {
		return r.Scope == policy.CountryScope || r.Scope == policy.PrefixScope
	}) {
		return buckets.RecipientGroups{}
	}
	r, err := s.Vault.OpenRecipient(v)
	if err != nil {
		return buckets.RecipientGroups{}
	}
	return buckets.GroupsOf(s.Vault, r)
}

// Quota returns the states of a recipient's rules now, and counts nothing. Errors:
// *fault.InvalidError, fault.Unavailable.
func (s *readService) Quota(ctx context.Context, c Caller, channel, to, purpose string) (Answer, error) {
	set := s.Policy.Get()
	p, err := FindPurpose(set, purpose)
	if err != nil {
		return Answer{}, err
	}
	r, err := s.parseRecipient(channel, to, "")
	if err != nil {
		return Answer{}, err
	}
	hashes := s.Vault.Hashes(r)
	plan := s.planFor(set, c, c.classWithoutTokens(), p, r, hashes)
	current, err := s.peek(ctx, plan)
	if err != nil {
		return Answer{}, err
	}
	view := View{Channel: r.Channel(), To: r.Masked(), Purpose: p.Name}
	asks := false
	if check := s.humanCheckOf(c.Kind, plan); check != nil && !set.TestRecipients.Has(hashes.Address, s.Now()) {
		// This read goes on without ctx, because other callers share it.
		asks = s.asksNext(c.Kind, plan, current.Decision) || s.needsPassAnyway(context.WithoutCancel(ctx), *check, plan, r, true)
	}
	return Answer{Quota: s.redact(ctx, plan, current, c, "", nil), View: view, AsksNext: asks}, nil
}

// NeverTogether reports whether a rule can never admit one send to each of these recipients at the
// same time: more of them share a bucket of the rule than its Limit allows. It returns false for an
// invalid request, which Send refuses.
func (s *readService) NeverTogether(c Caller, channel, purpose string, to ...string) bool {
	set := s.Policy.Get()
	p, err := FindPurpose(set, purpose)
	if err != nil {
		return false
	}
	counted := map[string]int{}
	for _, address := range to {
		r, err := s.parseRecipient(channel, address, "")
		if err != nil {
			return false
		}
		plan := s.planFor(set, c, c.classWithoutTokens(), p, r, s.Vault.Hashes(r))
		for _, bucket := range buckets.OfCountedScopes(plan.Buckets) {
			counted[bucket]++
		}
		for _, rule := range plan.Rules {
			if !rule.Observe && counted[plan.Buckets[rule.Scope]] > max(1, rule.Limit) {
				return true
			}
		}
	}
	return false
}

// RecipientQuota is Quota for administrators. It finds the recipient by hash, uses the limits for a
// class of callers, and also returns the rules that quota.Decision.Public removes. It returns no
// rules on networks, countries and prefixes, whose buckets can't be computed from the hash. Errors:
// *fault.InvalidError, fault.Unavailable.
func (s *readService) RecipientQuota(
	ctx context.Context, app string, ch recipient.Channel, purpose string, h recipient.Hash,
	class store.Class,
) (quota.Decision, error) {
	set := s.Policy.Get()
	p, err := FindPurpose(set, purpose)
	if err != nil {
		return quota.Decision{}, err
	}
	set.Breaker = quota.Rule{} // the breaker limits the service, not a recipient
	current, err := s.peek(ctx, buckets.NewPlan(
		buckets.Subject{App: app, Channel: ch, Recipient: h, Purpose: p, Class: class},
		set.RulesFor(p, policy.Request{App: app, Channel: ch, Class: class})))
	return current.Decision, err
}

// ValidateRecipient returns a *fault.InvalidError if codes can't be sent to a recipient: it is
// invalid, its country or kind of phone number isn't served, or its mail domain is disposable.
func (s *readService) ValidateRecipient(channel, to string) error {
	r, err := s.parseRecipient(channel, to, "")
	if err != nil {
		return err
	}
	if refusal := s.Policy.Get().ValidateRecipient(r); refusal != nil {
		return fault.Invalid("to", refusal.Reason, refusal.Detail)
	}
	return nil
}

// AlternativeChannel returns email if a text message failed or wasn't delivered, and otherwise "":
// no other channel is offered.
func AlternativeChannel(ch recipient.Channel, s store.Status) recipient.Channel {
	if ch == recipient.SMS && (s == store.Failed || s == store.Undelivered) {
		return recipient.Email
	}
	return ""
}

type ChannelInfo struct {
	Channel recipient.Channel
	Paused  bool // nothing is sent on it for now
	// Countries are the served countries of phone numbers, as sorted ISO 3166-1 alpha-2 codes. The
	// code "001" stands for international numbers.
	Countries []string
}

// Appearance is the look of a form before anything is sent.
type Appearance struct {
	Title       string // of the purpose; "" without a title in the reader's languages
	Light, Dark string // the app's accent colour for a light and for a dark page, as #rrggbb; "" if the app has none
}

// Appearance: languages is a tag or an Accept-Language list. An empty purpose is the default one.
// An unknown purpose has no title.
func (s *readService) Appearance(c Caller, purpose, languages string) Appearance {
	set := s.Policy.Get()
	look := set.Apps[c.App].Brand
	return Appearance{
		set.Purposes[cmp.Or(purpose, policy.DefaultPurpose)].Titles.ForLocaleOrEmpty(languages), look.Light.Accent,
		look.Dark.Accent,
	}
}

// Channels returns the channels of a purpose: mail, and text messages if a carrier is configured.
// Error: *fault.InvalidError for an unknown purpose.
func (s *readService) Channels(purpose string) ([]ChannelInfo, error) {
	set := s.Policy.Get()
	if _, err := FindPurpose(set, purpose); err != nil {
		return nil, err
	}
	purpose = cmp.Or(purpose, policy.DefaultPurpose)
	_, paused := set.Paused(recipient.Email, purpose)
	offers := []ChannelInfo{{Channel: recipient.Email, Paused: paused}}
	if s.Texts != nil {
		_, paused = set.Paused(recipient.SMS, purpose)
		offers = append(offers, ChannelInfo{
			Channel: recipient.SMS, Paused: paused,
			Countries: set.Numbers.ServedCountries(),
		})
	}
	return offers, nil
}
