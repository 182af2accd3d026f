package verification

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"sendcode/internal/buckets"
	"sendcode/internal/fault"
	"sendcode/internal/message"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/requestid"
	"sendcode/internal/store"
	"sendcode/quota"
)

// parsedAsk is an Ask that was read: for which recipient it is, and under which rules. Nothing
// changes it afterwards.
type parsedAsk struct {
	Ask                            // with what a resend leaves out
	request string                 // ID of the HTTP request; empty: none
	locale  string                 // canonical
	joins   joinedVerification     // zero: not a resend
	to      recipient.Recipient    // to whom the code is sent
	address recipient.Hash         // of the address as it is spelled; subject.Recipient may stand for several spellings
	subject buckets.Subject        // has the purpose with its rules, and the class
	buckets map[quota.Scope]string // of the subject; do not change
	holder  string                 // of a verification that the request opens
}

// joinedVerification is the verification that a resend names.
type joinedVerification struct {
	id    string
	chain []string // IDs of it and of those that it replaces
	class store.Class
	state State
}

// parseAsk reads a request in three steps: what it says, the hashes of its recipient, and the rules
// of its purpose. A request to a recipient that is not served is recorded as a refusal. Errors:
// *fault.InvalidError, fault.NotFound, fault.Unavailable.
func (s *Service) parseAsk(ctx context.Context, ask Ask) (parsedAsk, error) {
	a, err := s.parse(ctx, ask)
	if err != nil {
		return a, err
	}
	hashes := s.Vault.Hashes(a.to)
	a.address = hashes.Address
	set := s.Policy.Get()
	p, err := FindPurpose(set, a.Purpose)
	if err != nil {
		return a, err
	}
	a.subject = s.subject(set, a.Caller, s.classOf(ctx, a), p, a.to, hashes)
	a.buckets, a.holder = a.subject.Buckets(), a.newHolder()
	if a.Kind == Secret {
		a.Site = set.Apps[a.App].Site
	}
	if refusal := set.ValidateRecipient(a.to); refusal != nil {
		// so that an administrator finds why no code was sent
		s.recordRefusal(a, "refused", refusal.Reason, quota.Global, 0)
		return a, fault.Invalid("to", refusal.Reason, refusal.Detail)
	}
	return a, nil
}

// parse reads what a request says. For a resend it reads the verification. Errors:
// *fault.InvalidError, fault.NotFound, fault.Unavailable.
func (s *Service) parse(ctx context.Context, ask Ask) (parsedAsk, error) {
	a := parsedAsk{Ask: ask, request: requestid.From(ctx)}
	if err := validateOptions(ask); err != nil {
		return a, err
	}
	if ask.Locale != "" {
		var ok bool
		if a.locale, ok = message.CanonicalTag(ask.Locale); !ok {
			return a, fault.Invalid("locale", "invalid",
				"A locale is one language tag such as en or zh-CN (BCP 47), of at most 35 characters.")
		}
	}
	if ask.Resend != "" {
		if err := s.fillFromVerification(ctx, &a); err != nil {
			return a, err
		}
	}
	var err error
	if a.to, err = s.parseRecipient(a.Channel, a.To, a.Country); err == nil && a.locale == "" {
		a.locale = s.preferredLocale(a)
	}
	return a, err
}

// fillFromVerification fills in what a resend leaves out from the verification that it names. If
// To, Channel or Purpose are given, they must match it; Reference and Languages may differ. Errors:
// *fault.InvalidError, fault.NotFound also if it was erased, ErrCallerChecks, fault.Unavailable.
func (s *Service) fillFromVerification(ctx context.Context, a *parsedAsk) error {
	v, err := s.lookup(ctx, a.Caller, a.Resend)
	if err != nil {
		return err
	}
	if len(v.Sealed) == 0 { // erased
		return fault.NotFound
	}
	if v.CallerChecks {
		return ErrCallerChecks
	}
	to, err := s.Vault.Recipient(v.Verification)
	if err != nil { // the key is no longer in the ring
		return fault.Unavailable.Wrap(err)
	}
	if a.To != "" {
		given, err := s.parseRecipient(cmp.Or(a.Channel, string(v.Channel)), a.To, a.Country)
		if err != nil {
			return err
		}
		if s.Vault.AddressHash(given) != s.Vault.AddressHash(to) {
			return fault.Invalid("to", "mismatch", "The verification named belongs to another recipient.")
		}
	}
	if a.Channel != "" && a.Channel != string(v.Channel) {
		return fault.Invalid("channel", "mismatch", "The verification named uses another channel.")
	}
	if a.Stranger && v.Class != store.UnknownBrowser {
		return fault.Invalid("trust", "mismatch", "The verification named was not opened for a stranger.")
	}
	if a.Purpose != "" && a.Purpose != v.Purpose {
		return fault.Invalid("purpose", "mismatch", "The verification named has another purpose.")
	}
	a.Channel, a.To, a.Purpose = string(v.Channel), to.Address(), v.Purpose
	a.joins = joinedVerification{v.ID, v.Chain(), v.Class, v.state()}
	a.Languages = cmp.Or(a.Languages, v.Locale)
	a.Reference = cmp.Or(a.Reference, v.Reference)
	return nil
}

// preferredLocale returns the tag of the Accept-Language list that best fits the templates of the
// app and channel.
func (s *Service) preferredLocale(a parsedAsk) string {
	if a.to.Channel() == recipient.SMS {
		return s.Texts.PreferredLocale(a.App, a.Languages)
	}
	return s.Mails.PreferredLocale(a.App, a.Languages)
}

// classOf returns the class of a request: of a browser, known if it presents a token for the
// address, or names a verification of a known one.
func (s *Service) classOf(ctx context.Context, a parsedAsk) store.Class {
	if a.Kind == Browser && (a.joins.class == store.KnownBrowser || s.isKnown(ctx, a)) {
		return store.KnownBrowser
	}
	return a.Caller.class()
}

// MaxKnown is how many tokens a browser keeps and presents. KnownFor is how long after the approval
// a token is good.
const (
	MaxKnown = 5
	KnownFor = 90 * 24 * time.Hour
)

// isKnown reports whether a browser presents a token of this app and address whose verification was
// approved, at most KnownFor ago, and still has its address. It reads at most one verification, and
// none without a token that fits; if the database does not answer, it returns false.
func (s *Service) isKnown(ctx context.Context, a parsedAsk) bool {
	for _, token := range a.Known {
		id, err := s.Vault.OpenKnown(token, a.App, a.to.Channel(), a.address)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
		defer cancel()
		codes, now, err := s.Store.VerificationsByID(ctx, []string{id})
		if err != nil || len(codes) == 0 || codes[0].App != a.App || codes[0].Holder != "" ||
			codes[0].Channel != a.to.Channel() ||
			now.Sub(codes[0].ApprovedAt) >= KnownFor { // or never approved
			return false
		}
		address, err := s.Vault.AddressHashOf(codes[0]) // fails if it was erased
		return err == nil && address == a.address
	}
	return false
}

// subject returns what a caller's request of a class for a recipient is counted by, with the
// purpose and its rules.
func (s *Service) subject(
	set policy.Set, c Caller, class store.Class, p policy.Purpose, r recipient.Recipient,
	h recipient.Hashes) buckets.Subject {
	p = s.purposeWithRules(set, c, class, p, r.Channel(), h.Address)
	return subjectOf(c, class, r.Channel(), h.Counted, buckets.AreaOf(s.Vault, r, h), p)
}

func subjectOf(c Caller, class store.Class, ch recipient.Channel, h recipient.Hash, in buckets.Area,
	p policy.Purpose) buckets.Subject {
	return buckets.Subject{App: c.App, IP: c.IP, Channel: ch, Recipient: h, Area: in, Purpose: p, Class: class}
}

// purposeWithRules returns the purpose with the rules and limits for a caller of a class on sends
// to an address by a channel. To a test recipient nothing is refused.
func (s *Service) purposeWithRules(
	set policy.Set, c Caller, class store.Class, p policy.Purpose, ch recipient.Channel,
	address recipient.Hash) policy.Purpose {
	if c.Kind == Browser {
		p = set.ForBrowser(p, c.App, class)
	} else {
		p = set.ForBackEnd(p, c.App, class, c.IP)
	}
	p = p.ForChannel(ch)
	if set.TestRecipients.Has(address, s.Now()) {
		p = p.Observing()
	}
	return p
}

// newHolder returns the holder of a verification that the request opens: for a back end, unless it
// acts for a stranger or brings a code, a hash of the session and, if the address is not the
// canonical spelling of its mailbox, of the address as typed. A later request with the same holder
// may resend without the verification's ID. Empty for a browser.
func (a parsedAsk) newHolder() string {
	switch {
	case a.Stranger, a.Code != "":
		return rand.Text() // no other request has it
	case a.Kind != Secret:
		return ""
	}
	text := "sendcode holder v1\x00" + a.Session
	if a.address != a.subject.Recipient {
		text = "sendcode holder spelling v1\x00" + a.address.String() + a.Session
	}
	sum := sha256.Sum256([]byte(text))
	return "s:" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// row returns the fields of the database's row that an admitted and a refused request share.
func (a parsedAsk) row() store.Send {
	return store.Send{
		App: a.App, Channel: a.to.Channel(), Purpose: a.subject.Purpose.Name, Recipient: a.subject.Recipient,
		To:      a.to.Masked(),
		Country: a.to.Country(), Prefix: a.to.VisiblePrefix(), Locale: a.locale, Reference: a.Reference,
		VerificationID: a.joins.id,
		IP:             a.network(), Site: a.Site, RequestID: a.request,
	}
}

// recordRefusal records a refusal, and counts it in the metrics. scope is the scope of the rule; it
// decides which refusals share a row.
func (s *Service) recordRefusal(a parsedAsk, outcome, rule string, scope quota.Scope, wait time.Duration) {
	row := store.Row{Send: a.row(), Refusal: store.Refusal{BlockedBy: rule, RetryAfter: wait, Count: 1}}
	row.Status = store.Refused
	s.Refusals.Add(row, scope)
	s.Observer.Decided(a.to.Channel(), a.App, outcome, rule)
}
