package verification

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"time"
	"unicode"
	"unicode/utf8"

	"sendcode/internal/admission"
	"sendcode/internal/buckets"
	"sendcode/internal/fault"
	"sendcode/internal/message"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/requestid"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Ask is one request for a code, before it is parsed.
type Ask struct {
	Caller
	Channel   string
	To        string
	Country   string        // ISO 3166-1 alpha-2: country of a phone number in To that is in national form; empty: only international
	Purpose   string        // empty: default
	Locale    string        // a BCP 47 tag of at most 35 characters; empty: see Languages
	Languages string        // an Accept-Language list; invalid parts are ignored
	Site      string        // browsers: host of the page that asks; empty: our own
	Reference string        // the app's own name for the request, at most 64 characters
	Session   string        // secret keys: names the end user's session, at most 128 characters
	Wait      time.Duration // secret keys: how long to wait for the outcome, at most MaxWait; 0: answer at once
	Resend    string        // ID of a verification; Channel, To and Purpose may then be left out
	Known     []string      // browsers: tokens of earlier right codes, the newest first, at most MaxKnown; see CheckResult.Known
	Code      string        // secret keys: the caller's own code, 4 to 12 ASCII letters and digits, which it checks itself; empty: ours
	TTL       time.Duration // how long Code is good, told in the message, 1 min to store.MaxLife; 0: not told
	Key       string        // Idempotency-Key: requests of one caller with the same key are one request, for 24 h; empty: none
}

// asked is a parsed and checked Ask.
type asked struct {
	Ask
	request   string // ID of the HTTP request; empty: none
	purpose   policy.Purpose
	to        recipient.Recipient
	address   recipient.Hash // of the address as it is spelled; subject.Recipient may stand for several spellings
	subject   buckets.Subject
	buckets   map[quota.Scope]string // of the subject; do not change
	holder    string
	join      string
	chain     []string           // IDs of the verification to join, if a resend names one, and of those that it replaces
	joinClass store.Class        // of the verification to join
	class     store.Class        // of the request: decides its limits, and is that of a verification which it opens
	longCode  bool               // a new code has at least LongCode characters
	locale    string             // canonical
	leave     func(decided bool) // see admission.Admission.Enter
	own       State              // state of the verification that a resend names; empty: not a resend
	slot      *admission.Slot
}

// Bounds of a request's free texts, in characters.
const (
	maxReference = 64
	maxSession   = 128
)

// parseAsk parses and checks a request. For a resend it reads the verification. A request to a recipient that is not served is
// recorded as a refusal. Errors: *fault.InvalidError, fault.NotFound, fault.Unavailable.
func (s *Service) parseAsk(ctx context.Context, ask Ask) (asked, error) {
	a := asked{Ask: ask, request: requestid.From(ctx)}
	if err := validateOptions(ask); err != nil {
		return a, err
	}
	if ask.Locale != "" {
		var ok bool
		if a.locale, ok = message.CanonicalTag(ask.Locale); !ok {
			return a, fault.Invalid("locale", "invalid", "A locale is one language tag such as en or zh-CN (BCP 47), of at most 35 characters.")
		}
	}
	if ask.Resend != "" {
		if err := s.fillFromVerification(ctx, &a); err != nil {
			return a, err
		}
	}
	var err error
	if a.to, err = s.parseRecipient(a.Channel, a.To, a.Country); err != nil {
		return a, err
	}
	p, err := FindPurpose(s.Policy.Get(), a.Purpose)
	if err != nil {
		return a, err
	}
	if a.Kind == Secret {
		a.Site = s.Policy.Get().Apps[a.App].Site
	}
	hashes := s.Vault.Hashes(a.to)
	a.address = hashes.Address
	if a.class = a.Caller.class(); a.Kind == Browser && (a.joinClass == store.KnownBrowser || s.isKnown(ctx, a)) {
		a.class = store.KnownBrowser
	}
	a.purpose = s.ruled(s.rulesFor(a.Caller, a.class, p), a.to.Channel(), a.address)
	a.subject = subjectOf(a.Caller, a.class, a.to.Channel(), hashes.Counted, buckets.AreaOf(s.Vault, a.to, hashes), a.purpose)
	a.buckets = a.subject.Buckets()
	if a.locale == "" {
		a.locale = s.preferredLocale(a)
	}
	if refusal := s.Policy.Get().ValidateRecipient(a.to); refusal != nil {
		s.recordRefusal(a, "refused", refusal.Reason, quota.Global, 0) // so that an administrator finds why no code was sent
		return a, fault.Invalid("to", refusal.Reason, refusal.Detail)
	}
	switch {
	case a.Stranger, a.Code != "":
		a.holder = rand.Text() // no other request has it
	case a.Kind == Secret:
		a.holder = a.holderHash()
	}
	return a, nil
}

// fillFromVerification fills in what a resend leaves out from the verification that it names. If To, Channel or Purpose are given, they
// must match it; Reference and Languages may differ. Errors: *fault.InvalidError, fault.NotFound also if it was erased, fault.Unavailable.
func (s *Service) fillFromVerification(ctx context.Context, a *asked) error {
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
	a.Channel, a.To, a.Purpose, a.join, a.own = string(v.Channel), to.Address(), v.Purpose, v.ID, v.state()
	a.chain = v.Chain()
	a.Languages = cmp.Or(a.Languages, v.Locale)
	a.joinClass = v.Class
	a.Reference = cmp.Or(a.Reference, v.Reference)
	return nil
}

func validateOptions(ask Ask) error {
	switch {
	case !IsPlainText(ask.Reference, maxReference):
		return fault.Invalid("reference", "invalid", "A reference has at most 64 characters and no control characters.")
	case !IsPlainText(ask.Session, maxSession):
		return fault.Invalid("session", "invalid", "A session has at most 128 characters and no control characters.")
	case ask.Session != "" && ask.Kind != Secret:
		return fault.Invalid("session", "not_allowed", "Only secret keys may name a session.")
	case ask.Session != "" && ask.Stranger:
		return fault.Invalid("session", "not_allowed",
			"A request with trust stranger names its verification by verification_id, not by a session.")
	case len(ask.Known) > 0 && ask.Kind != Browser:
		return fault.Invalid("known", "not_allowed", "Only browsers have tokens of earlier codes; a secret key needs none.")
	case len(ask.Known) > MaxKnown:
		return fault.Invalid("known", "too_many", "A browser presents at most 5 tokens, the newest ones.")
	case ask.Wait > 0 && ask.Kind != Secret:
		return fault.Invalid("prefer", "not_allowed", "Only secret keys may wait for the outcome.")
	case ask.Code != "" || ask.TTL != 0:
		if err := validateCode(ask); err != nil {
			return err
		}
	}
	switch {
	case ask.Country != "" && !recipient.KnownCountry(ask.Country):
		return fault.Invalid("country", "unknown", "A country is a code of two capital letters such as DE (ISO 3166-1).")
	}
	return nil
}

// Bounds of a caller's code, in characters, and the least of its TTL, since messages tell whole minutes.
const (
	minCode = 4
	maxCode = 12
	minTTL  = time.Minute
)

// callersCode matches a caller's code.
var callersCode = regexp.MustCompile(fmt.Sprintf(`^[0-9A-Za-z]{%d,%d}$`, minCode, maxCode))

// ErrTTL says that a ttl is too short or too long.
var ErrTTL = fault.Invalid("ttl", "out_of_range", "A ttl is 60 to 86400 seconds.")

// validateCode checks a caller's code and its TTL. No error repeats the code.
func validateCode(ask Ask) error {
	switch {
	case ask.Code == "":
		return fault.Invalid("ttl", "not_allowed", "A ttl is for a code of the caller; ours live as long as their purpose says.")
	case ask.Kind != Secret:
		return fault.Invalid("code", "not_allowed", "Only secret keys may bring a code of their own.")
	case !callersCode.MatchString(ask.Code):
		return fault.Invalid("code", "invalid", "A code has 4 to 12 characters, which are letters and digits of ASCII.")
	case ask.Resend != "":
		return fault.Invalid("code", "not_allowed", "A caller's code opens a verification of its own, so it names none.")
	case ask.Session != "":
		return fault.Invalid("session", "not_allowed", "A caller's code is never sent again, so no session is needed for it.")
	case ask.TTL != 0 && (ask.TTL < minTTL || ask.TTL > store.MaxLife):
		return ErrTTL
	}
	return nil
}

// preferredLocale returns the tag of the Accept-Language list that best fits the templates of the app and channel.
func (s *Service) preferredLocale(a asked) string {
	if a.to.Channel() == recipient.SMS {
		return s.Texts.PreferredLocale(a.App, a.Languages)
	}
	return s.Mails.PreferredLocale(a.App, a.Languages)
}

// purposeFor returns a purpose by name, with the rules and limits that apply to this caller and class. Error: *fault.InvalidError.
func (s *Service) purposeFor(c Caller, class store.Class, name string) (policy.Purpose, error) {
	p, err := FindPurpose(s.Policy.Get(), name)
	if err != nil {
		return p, err
	}
	return s.rulesFor(c, class, p), nil
}

// rulesFor returns the purpose with the rules and limits that apply to this caller and class.
func (s *Service) rulesFor(c Caller, class store.Class, p policy.Purpose) policy.Purpose {
	if c.Kind == Browser {
		return s.Policy.Get().ForBrowser(p, c.App, class)
	}
	return s.Policy.Get().ForBackEnd(p, c.App, class, c.IP)
}

// ruled returns the purpose with the rules on sends to an address by a channel. To a test recipient nothing is refused.
func (s *Service) ruled(p policy.Purpose, ch recipient.Channel, address recipient.Hash) policy.Purpose {
	p = p.ForChannel(ch)
	if s.Policy.Get().TestRecipients.Has(address, s.Now()) {
		p = p.Observing()
	}
	return p
}

// MaxKnown is how many tokens a browser keeps and presents. KnownFor is how long after the approval a token is good.
const (
	MaxKnown = 5
	KnownFor = 90 * 24 * time.Hour
)

// isKnown reports whether a browser presents a token of this app and address whose verification was approved, at most KnownFor ago, and
// still has its address. It reads at most one verification, and none without a token that fits; if the database does not answer, it
// returns false.
func (s *Service) isKnown(ctx context.Context, a asked) bool {
	for _, token := range a.Known {
		id, err := s.Vault.OpenKnown(token, a.App, a.to.Channel(), a.address)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, store.CallTimeout)
		defer cancel()
		codes, now, err := s.Store.CodesOf(ctx, []string{id})
		if err != nil || len(codes) == 0 || codes[0].App != a.App || codes[0].Holder != "" || codes[0].Channel != a.to.Channel() ||
			now.Sub(codes[0].ApprovedAt) >= KnownFor { // or never approved
			return false
		}
		address, err := s.Vault.AddressHashOf(codes[0]) // fails if it was erased
		return err == nil && address == a.address
	}
	return false
}

// FindPurpose returns a purpose by name, "" for the default one. Error: *fault.InvalidError.
func FindPurpose(set policy.Set, name string) (policy.Purpose, error) {
	p, ok := set.Purpose(name)
	if !ok {
		return p, fault.Invalid("purpose", "unknown", "No purpose of that name is configured.")
	}
	return p, nil
}

func subjectOf(c Caller, class store.Class, ch recipient.Channel, h recipient.Hash, in buckets.Area, p policy.Purpose) buckets.Subject {
	return buckets.Subject{App: c.App, IP: c.IP, Channel: ch, Recipient: h, Area: in, Purpose: p, Class: class}
}

// parseRecipient parses a recipient. Error: *fault.InvalidError, also for sms if no carrier is configured.
func (s *Service) parseRecipient(channel, to, country string) (recipient.Recipient, error) {
	if channel == string(recipient.SMS) && s.Texts == nil {
		return recipient.Recipient{}, fault.Invalid("channel", "not_configured", "No carrier is configured for this channel.")
	}
	return ParseRecipient(channel, to, country)
}

// ParseRecipient parses a recipient of any channel. Without a country it takes phone numbers only in international form. Error:
// *fault.InvalidError.
func ParseRecipient(channel, to, country string) (recipient.Recipient, error) {
	var none recipient.Recipient
	if channel == "" {
		return none, fault.Invalid("channel", "required", "The channel is missing; it is email or sms.")
	}
	ch, err := recipient.ParseChannel(channel)
	if err != nil {
		return none, fault.Invalid("channel", "unsupported", "This channel is not supported; email and sms are.")
	}
	if to == "" {
		return none, fault.Invalid("to", "required", "The recipient is missing.")
	}
	r, err := recipient.ParseIn(ch, to, country)
	if bad, ok := errors.AsType[*recipient.InvalidError](err); ok {
		return none, fault.Invalid("to", bad.Reason, bad.Detail)
	}
	return r, err
}

// holderHash returns the holder of a back end's verification: a hash of the session and, if the address is not the canonical spelling of
// its mailbox, of the address as typed. A later request with the same holder may resend without the verification's ID.
func (a asked) holderHash() string {
	text := "sendcode holder v1\x00" + a.Session
	if a.address != a.subject.Recipient {
		text = "sendcode holder spelling v1\x00" + a.address.String() + a.Session
	}
	sum := sha256.Sum256([]byte(text))
	return "s:" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// row returns the fields of the database's row that an admitted and a refused request share.
func (a asked) row() store.Send {
	return store.Send{
		App: a.App, Channel: a.to.Channel(), Purpose: a.purpose.Name, Recipient: a.subject.Recipient, To: a.to.Masked(),
		Country: a.to.Country(), Prefix: a.to.VisiblePrefix(), Locale: a.locale, Reference: a.Reference, VerificationID: a.join,
		IP: a.network(), Site: a.Site, RequestID: a.request,
	}
}

// recordRefusal records a refusal, and counts it in the metrics. scope is the scope of the rule; it decides which refusals share a row.
func (s *Service) recordRefusal(a asked, outcome, rule string, scope quota.Scope, wait time.Duration) {
	row := a.row()
	row.Status, row.BlockedBy, row.RetryAfter, row.Count = store.Refused, rule, wait, 1
	row.Reference = "" // free text, and refusals are not searched by it
	s.Refusals.Add(row, scope)
	s.Observer.Decided(a.to.Channel(), a.App, outcome, rule)
}

// IsPlainText reports whether s is valid UTF-8 of at most limit characters, without control or format characters. Such a text is safe in
// a row, a page or a header.
func IsPlainText(s string, limit int) bool {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > limit {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.In(r, unicode.Zl, unicode.Zp) {
			return false
		}
	}
	return true
}
