package verification

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/bucketnames"
	"sendcode/internal/store"
	"sendcode/quota"
)

// parsedRequest is a Request after parsing, with its recipient and the rules that apply. It is not
// changed afterwards.
type parsedRequest struct {
	Request                          // for a resend: completed from the verification that it names
	requestID string                 // ID of the HTTP request; empty: none
	locale    string                 // canonical
	joins     storedVerification     // zero: not a resend
	to        recipient.Recipient    // of the code
	address   recipient.Hash         // of the address as it is spelled; subject.Recipient may stand for several spellings
	subject   bucketnames.Subject    // has the purpose with its rules, and the class
	buckets   map[quota.Scope]string // of the subject; must not be changed
	holder    string                 // of a verification that the request opens
}

// parseRequest reads a request in three steps: its fields, the hashes of its recipient, and the
// rules of its purpose. Errors: *fault.InvalidError, fault.NotFound, ErrCallerCode, fault.Unavailable.
func (s *Service) parseRequest(ctx context.Context, ask Request) (parsedRequest, error) {
	a, err := s.parseFields(ctx, ask)
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
	a.subject = s.subjectWithRules(set, a.Caller, s.classOf(ctx, a), p, a.to, hashes)
	a.buckets, a.holder = a.subject.Buckets(), a.newHolder()
	if a.Kind == BackEnd {
		a.Site = set.Apps[a.App].Site
	}
	return a, nil
}

// parseSend is parseRequest for a request that makes a send. A recipient that is not served is a *fault.InvalidError. It
// records that refusal, so that administrators see why there is no send.
func (s *Service) parseSend(ctx context.Context, ask Request) (parsedRequest, error) {
	a, err := s.parseRequest(ctx, ask)
	if err != nil {
		return a, err
	}
	if refusal := s.Policy.Get().ValidateRecipient(a.to); refusal != nil {
		s.recordRefusal(a, "refused", refusal.Reason, quota.Global, 0)
		return a, fault.Invalid("to", refusal.Reason, refusal.Detail)
	}
	return a, nil
}

// parseFields parses the fields of a request. For a resend it also reads the verification. Errors:
// *fault.InvalidError, fault.NotFound, ErrCallerCode, fault.Unavailable.
func (s *Service) parseFields(ctx context.Context, ask Request) (parsedRequest, error) {
	a := parsedRequest{Request: ask, requestID: logs.RequestID(ctx)}
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

// fillFromVerification fills the empty fields of a resend from the verification that it names. To,
// Channel and Purpose must match the verification if they are given; labels and Languages may
// differ. Errors: *fault.InvalidError; fault.NotFound, also if the recipient was erased;
// ErrCallerCode; fault.Unavailable.
func (s *Service) fillFromVerification(ctx context.Context, a *parsedRequest) error {
	v, err := s.lookup(ctx, a.Caller, a.Resend)
	if err != nil {
		return err
	}
	if len(v.Sealed) == 0 { // erased
		return fault.NotFound
	}
	if v.CallerChecks {
		return ErrCallerCode
	}
	to, err := s.Vault.OpenRecipient(v.Verification)
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
	a.joins = v
	a.Languages = cmp.Or(a.Languages, v.Locale)
	a.Labels = a.Labels.Or(v.Labels)
	return nil
}

// preferredLocale returns the tag of the Accept-Language list that best fits the templates of the
// app and channel.
func (s *Service) preferredLocale(a parsedRequest) string {
	if a.to.Channel() == recipient.SMS {
		return s.Texts.PreferredLocale(a.App, a.Languages)
	}
	return s.Mails.PreferredLocale(a.App, a.Languages)
}

// classOf returns the class of a request. A browser is known if it presents a token for the
// address, or names a verification that a known browser opened.
func (s *Service) classOf(ctx context.Context, a parsedRequest) store.Class {
	if a.Kind == Browser && (a.joins.Class == store.KnownBrowser || s.isKnownBrowser(ctx, a)) {
		return store.KnownBrowser
	}
	return a.Caller.classWithoutTokens()
}

// MaxKnownTokens is how many tokens a browser keeps and presents. KnownTokenLife is how long a
// token is good after the approval.
const (
	MaxKnownTokens = 5
	KnownTokenLife = 90 * 24 * time.Hour
)

// isKnownBrowser reports whether a browser presents a token of this app and address. The token's
// verification must have been approved less than KnownTokenLife ago, and its address not erased. It
// reads at most one verification, and none without a token that fits. If the database does not
// answer, it returns false.
func (s *Service) isKnownBrowser(ctx context.Context, a parsedRequest) bool {
	for _, token := range a.KnownTokens {
		id, err := s.Vault.OpenKnownToken(token, a.App, a.to.Channel(), a.address)
		if err != nil {
			continue
		}
		v, now, err := s.Store.VerificationRow(ctx, id)
		if err != nil || v.App != a.App || v.Holder != "" || v.Channel != a.to.Channel() ||
			now.Sub(v.ApprovedAt) >= KnownTokenLife { // or never approved
			return false
		}
		address, err := s.Vault.AddressHashOf(v) // fails if it was erased
		return err == nil && address == a.address
	}
	return false
}

// subjectWithRules returns the subject that a request counts for: its caller, class and recipient,
// with the purpose and its rules.
func (s *Service) subjectWithRules(set policy.Set, c Caller, class store.Class, p policy.Purpose, r recipient.Recipient,
	h recipient.Hashes,
) bucketnames.Subject {
	p = s.purposeWithRules(set, c, class, p, r.Channel(), h.Address)
	return subjectOf(c, class, r.Channel(), h.Counted, bucketnames.GroupsOf(s.Vault, r, h), p)
}

func subjectOf(c Caller, class store.Class, ch recipient.Channel, h recipient.Hash, in bucketnames.RecipientGroups,
	p policy.Purpose,
) bucketnames.Subject {
	of := bucketnames.Subject{App: c.App, IP: c.IP, Channel: ch, Recipient: h, Groups: in, Purpose: p, Class: class}
	if c.Kind == BackEnd {
		return of.WithoutUnnamedClient()
	}
	return of
}

// purposeWithRules returns the purpose with the rules and limits that apply to the caller, the
// class and the channel. If the address is a test recipient's, the rules only observe.
func (s *Service) purposeWithRules(set policy.Set, c Caller, class store.Class, p policy.Purpose, ch recipient.Channel,
	address recipient.Hash,
) policy.Purpose {
	if c.Kind == Browser {
		p = set.ForBrowser(p, c.App, class)
	} else {
		p = set.ForBackEnd(p, c.App, class)
	}
	p = p.ForChannel(ch)
	if set.TestRecipients.Has(address, s.Now()) {
		p = p.ForTestRecipient()
	}
	return p
}

// newHolder returns the holder of a verification that the request opens. For a browser it is empty.
// For a stranger, and for a caller's code, it is random. Else it is a hash of the session and, if
// the address is not the canonical spelling of its mailbox, of the address as typed. A later
// request with the same holder may resend without the verification's ID.
func (a parsedRequest) newHolder() string {
	switch {
	case a.Stranger, a.Code != "":
		return rand.Text() // no other request has it
	case a.Kind != BackEnd:
		return ""
	}
	text := "sendcode holder v1\x00" + a.Session
	if a.address != a.subject.Recipient {
		text = "sendcode holder spelling v1\x00" + a.address.String() + a.Session
	}
	sum := sha256.Sum256([]byte(text))
	return "s:" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// sendRow returns the fields of the database's row that are the same for an admitted and a refused
// request.
func (a parsedRequest) sendRow() store.Send {
	return store.Send{
		App: a.App, Channel: a.to.Channel(), Purpose: a.subject.Purpose.Name, Recipient: a.subject.Recipient,
		To:      a.to.Masked(),
		Country: a.to.Country(), Prefix: a.to.VisiblePrefix(), Locale: a.locale, Labels: a.Labels,
		VerificationID: a.joins.ID,
		Network:        a.network(), Site: a.Site, RequestID: a.requestID,
	}
}

// recordRefusal records a refusal, and counts it in the metrics. scope is the scope of the rule; it
// decides which refusals share a row.
func (s *Service) recordRefusal(a parsedRequest, outcome, rule string, scope quota.Scope, wait time.Duration) {
	row := store.SendOrRefusal{Send: a.sendRow(), Refusal: store.Refusal{BlockedBy: rule, RetryAfter: wait, Count: 1}}
	row.Status = store.Refused
	s.Refusals.Add(row, scope)
	s.Observer.Decided(a.to.Channel(), a.App, outcome, rule)
}
