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
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
	"sendcode/internal/verify/humancheck"
	"sendcode/quota"
)

// parsedRequest is a Request after parsing. After parseSend it never changes.
type parsedRequest struct {
	Request                        // in a resend, completed from the verification that the request names
	requestID   string             // ID of the HTTP request; empty: none
	locale      string             // canonical
	resendOf    storedVerification // the verification that the request names; zero: not a resend
	to          recipient.Recipient
	addressHash recipient.Hash    // hash of the address as spelled; plan.Recipient may stand for several spellings
	plan        buckets.Plan      // the request's rules, each with its gate, limit and bucket
	holder      string            // of a verification that the request opens
	check       *humancheck.Check // the human check that a send may be asked for; nil: none
	// lowerLimits has, for each policy.Pass, the rules of the plan that have a lower limit for a
	// send with this pass, with that limit. A send must keep these rules and the plan's own.
	// lowerLimits[policy.FullPass] is empty.
	lowerLimits   [policy.FullPass + 1][]quota.Rule
	checkRequired bool // a human check is required even if the rules have free places
}

// Errors of parseRequest: *fault.InvalidError, fault.NotFound, ErrCallerCode, fault.Unavailable.
func (s *readService) parseRequest(ctx context.Context, ask Request) (*parsedRequest, error) {
	r, err := s.parseFields(ctx, ask)
	if err != nil {
		return nil, err
	}
	hashes := s.Vault.Hashes(r.to)
	r.addressHash = hashes.Address
	set := s.Policy.Get()
	p, err := FindPurpose(set, r.Purpose)
	if err != nil {
		return nil, err
	}
	r.plan = s.planFor(set, r.Caller, s.callerClass(ctx, r, p.Life(r.to.Channel())), p, r.to, hashes)
	r.holder = r.newHolder()
	if r.Kind == BackEnd {
		r.Site = set.Apps[r.App].Site
	}
	return r, nil
}

// parseSend is parseRequest for a request that makes a send. If the recipient is not served, it
// returns a *fault.InvalidError and records the refusal, so that administrators see why there is no
// send.
func (s *sendService) parseSend(client, deciding context.Context, ask Request) (*parsedRequest, error) {
	r, err := s.parseRequest(client, ask)
	if err != nil {
		return nil, err
	}
	if refusal := s.Policy.Get().ValidateRecipient(r.to); refusal != nil {
		s.recordRefusal(r, "refused", refusal.Reason, quota.Global, 0)
		return nil, fault.Invalid("to", refusal.Reason, refusal.Detail)
	}
	return r, s.addHumanCheck(deciding, r)
}

// parseFields also reads the verification that a resend names. Errors: those of parseRequest.
func (s *readService) parseFields(ctx context.Context, ask Request) (*parsedRequest, error) {
	r := &parsedRequest{Request: ask, requestID: logs.RequestID(ctx)}
	if err := validateOptions(ask); err != nil {
		return r, err
	}
	r.locale = message.WantedTag(ask.Locale)
	if ask.Resend != "" {
		if err := s.fillResend(ctx, r); err != nil {
			return r, err
		}
	}
	var err error
	if r.to, err = s.parseRecipient(r.Channel, r.To, r.Country); err == nil && r.locale == "" {
		r.locale = s.preferredLocale(r)
	}
	return r, err
}

// fillResend fills the empty fields of a resend from the verification that it names. To, Channel,
// Purpose and Details must match the verification if they are given. Labels and Languages may
// differ. If the request doesn't say whether the back end knows the person, the verification's
// class decides. Errors: *fault.InvalidError; fault.NotFound, also if the recipient was erased;
// ErrCallerCode; fault.Unavailable.
func (s *readService) fillResend(ctx context.Context, r *parsedRequest) error {
	v, err := s.lookup(ctx, r.Caller, r.Resend)
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
	if r.To != "" {
		given, err := s.parseRecipient(cmp.Or(r.Channel, string(v.Channel)), r.To, r.Country)
		if err != nil {
			return err
		}
		if s.Vault.AddressHash(given) != s.Vault.AddressHash(to) {
			return fault.Invalid("to", "mismatch", "The verification_id is that of another recipient's code.")
		}
	}
	if r.Channel != "" && r.Channel != string(v.Channel) {
		return fault.Invalid("channel", "mismatch", "The verification_id is that of a code on another channel.")
	}
	if r.Kind == BackEnd {
		r.Trust = r.Trust.ofResend(v.Class)
	}
	if r.Purpose != "" && r.Purpose != v.Purpose {
		return fault.Invalid("purpose", "mismatch", "The verification_id is that of a code for another purpose.")
	}
	if r.Details != "" && r.Details != v.Details {
		return fault.Invalid("details", "mismatch", "The verification_id is that of a code that confirms something else.")
	}
	r.Channel, r.To, r.Purpose, r.Details = string(v.Channel), to.Address(), v.Purpose, v.Details
	r.resendOf = v
	r.Languages = cmp.Or(r.Languages, v.Locale)
	return nil
}

func (s *readService) preferredLocale(r *parsedRequest) string {
	if r.to.Channel() == recipient.SMS {
		return s.Texts.PreferredLocale(r.App, r.Languages)
	}
	return s.Mails.PreferredLocale(r.App, r.Languages)
}

// A browser is known if it sends a token for the address, or if it resends the code of a known
// browser. life is that of a new code.
func (s *readService) callerClass(ctx context.Context, r *parsedRequest, life time.Duration) store.Class {
	if r.Kind == Browser && (r.resendOf.isJoined(life) && r.resendOf.Class == store.KnownBrowser || s.isKnownBrowser(ctx, r)) {
		return store.KnownBrowser
	}
	return r.Caller.classWithoutTokens()
}

// MaxKnownTokens is how many tokens of known browsers a browser keeps and sends. A token is valid
// for KnownTokenLife after the approval of its verification.
const (
	MaxKnownTokens = 5
	KnownTokenLife = 90 * 24 * time.Hour
)

// isKnownBrowser reports whether a browser sends a token of this app and address. The token's
// verification must have been approved less than KnownTokenLife ago, and its address must not be
// erased. At most one verification is read, and none for tokens of other apps or addresses. If the
// database doesn't answer, the browser is not known.
func (s *readService) isKnownBrowser(ctx context.Context, r *parsedRequest) bool {
	for _, token := range r.KnownTokens {
		id, err := s.Vault.OpenKnownToken(token, r.App, r.to.Channel(), r.addressHash)
		if err != nil {
			continue
		}
		v, now, err := s.Rows.VerificationRow(ctx, id)
		if err != nil || v.App != r.App || v.Holder != "" || v.Channel != r.to.Channel() ||
			now.Sub(v.ApprovedAt) >= KnownTokenLife { // or never approved
			return false
		}
		address, err := s.Vault.AddressHashOfVerification(v) // fails if it was erased
		return err == nil && address == r.addressHash
	}
	return false
}

// planFor returns the rules of a caller's request and their buckets. For all classes but
// SecretKeyClass the plan also has the app's rule on failed checks. While this rule has no free
// place, codeLength makes longer codes.
func (s *readService) planFor(set policy.Set, c Caller, class store.Class, p policy.Purpose, to recipient.Recipient,
	h recipient.Hashes,
) buckets.Plan {
	var extra []quota.Rule
	if class != store.SecretKeyClass {
		extra = []quota.Rule{set.Checks.App}
		extra[0].Scope, extra[0].Recorded = policy.FailedChecksScope, true
	}
	return buckets.NewPlan(buckets.Subject{
		App: c.App, IP: c.IP, Channel: to.Channel(), Recipient: h.Counted, Groups: buckets.GroupsOf(s.Vault, to),
		Purpose: p, Class: class,
	}, s.rulesFor(set, c, class, p, to.Channel(), h.Address), extra...)
}

func (s *readService) rulesFor(set policy.Set, c Caller, class store.Class, p policy.Purpose, ch recipient.Channel,
	address recipient.Hash,
) []quota.Rule {
	return set.RulesFor(p, policy.Request{
		App: c.App, Channel: ch, Class: class, NamesClient: c.Kind == Browser || c.IP.IsValid(),
		Test: set.TestRecipients.Has(address, s.Now()),
	})
}

// newHolder returns the holder of a verification that the request opens. If the holder is a
// session's (store.SessionHolder), a later request with the same holder may resend the code without
// the verification's ID. The holder of a browser's verification is empty. For a caller's code, and
// for a stranger without a session, the holder is random, because otherwise anybody who types
// another person's address would get that person's verification. Any other holder is a hash of the
// session, and of the address as typed unless that is the canonical spelling of its mailbox.
func (p *parsedRequest) newHolder() string {
	switch {
	case p.Kind == BackEnd && !p.Trust.IsKnown() && p.Session == "", p.Code != "":
		return rand.Text() // no other request has it
	case p.Kind != BackEnd:
		return ""
	}
	text := "sendcode holder v1\x00" + p.Session
	if p.addressHash != p.plan.Recipient {
		text = "sendcode holder spelling v1\x00" + p.addressHash.String() + p.Session
	}
	sum := sha256.Sum256([]byte(text))
	return store.SessionHolder + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// sendRow returns the fields that an admitted and a refused send share.
func (p *parsedRequest) sendRow() store.Send {
	return store.Send{
		App: p.App, Channel: p.to.Channel(), Purpose: p.plan.Purpose.Name, Recipient: p.plan.Recipient,
		To:      p.to.Masked(),
		Country: p.to.Country(), Prefix: p.to.VisiblePrefix(), Locale: p.locale, Labels: p.Labels.Or(p.resendOf.Labels),
		VerificationID: p.resendOf.ID,
		Network:        p.network(), Site: p.Site, RequestID: p.requestID,
	}
}

// recordRefusal stores a refusal and counts it in the metrics. scope is the rule's, and decides
// which refusals share a row.
func (s *sendService) recordRefusal(r *parsedRequest, outcome, rule string, scope quota.Scope, wait time.Duration) {
	row := store.SendOrRefusal{Send: r.sendRow(), Refusal: store.Refusal{BlockedBy: rule, RetryAfter: wait, Count: 1}}
	row.Status = store.Refused
	s.Refusals.Add(row, scope)
	s.Observer.Decided(r.to.Channel(), r.App, outcome, rule)
}
