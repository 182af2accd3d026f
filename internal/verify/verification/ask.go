package verification

import (
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
)

// Request is one request for a code, before it is parsed.
type Request struct {
	Caller
	Channel string
	To      string
	// Country is the country of a phone number in national form, as an ISO 3166-1 alpha-2 code. If
	// Country is empty, a phone number in To must have the international form.
	Country      string
	Purpose      string        // empty: default
	Locale       string        // see message.WantedTag; empty: see LocaleChooser
	Languages    string        // an Accept-Language list; invalid parts are ignored
	Site         string        // browsers: host of the page that asks; empty: our own
	store.Labels               // each of at most 64 characters
	Session      string        // secret keys: names the end user's session, at most 128 characters
	Details      string        // only with a secret key: what the code confirms; at most 100 characters, no URL
	Wait         time.Duration // only with a secret key: how long to wait for the outcome, at most MaxWait; 0: do not wait
	Resend       string        // ID of a verification; Channel, To and Purpose may then be left out
	// KnownTokens are tokens that a browser got when earlier codes were entered in it, the newest
	// first, at most MaxKnownTokens. See CheckResult.KnownToken.
	KnownTokens []string
	// Code is the caller's own code, which has 4 to 12 ASCII letters and digits. Only callers with
	// a secret key set Code, and such a caller checks the code itself.
	Code string
	TTL  time.Duration // life of Code, 1 minute to store.MaxCodeLife, stated in the message; 0: the purpose's life, not stated
	// Reports is true if the caller will report each approval of Code. Then a code without a report
	// counts as not entered.
	Reports bool
	// HumanCheck is the token of a human check: a vendor's token, or humancheck.WorkPrefix with the
	// solution of a proof of work. The token is checked only if the request isn't admitted without
	// it.
	HumanCheck string
	// Only callers with a secret key set MaySend. Send calls it when the send is admitted, before
	// the message leaves. If it returns false, the code is canceled, no message leaves, and Send
	// returns ErrKeptBack. A repeated request doesn't call MaySend. If this process dies before
	// MaySend has returned, or before the cancellation is written, another process sends the
	// message.
	MaySend func() bool
}

// These are bounds of a request's free texts, in characters.
const (
	maxLabelLength   = 64
	maxSessionLength = 128
	maxDetailsLength = 100
)

func validateOptions(ask Request) error {
	for name, text := range ask.Labels.All() {
		if !IsPlainText(text, maxLabelLength) {
			return fault.Invalid(name, "invalid", "A "+name+" has at most 64 characters and no control characters.")
		}
	}
	wrongDetails := message.CheckDetails(ask.Details, maxDetailsLength)
	switch {
	case !IsPlainText(ask.Session, maxSessionLength):
		return fault.Invalid("session", "invalid", "A session has at most 128 characters and no control characters.")
	case ask.Session != "" && ask.Kind != BackEnd:
		return fault.Invalid("session", "not_allowed", "Only secret keys may name a session.")
	case ask.Details != "" && ask.Kind != BackEnd:
		return fault.Invalid("details", "not_allowed", "Only secret keys may say what a code confirms.")
	case wrongDetails != nil:
		return fault.Invalid("details", "invalid", "Details are one line of at most 100 characters, without a URL. These have an error: "+
			wrongDetails.Error()+".")
	case len(ask.KnownTokens) > 0 && ask.Kind != Browser:
		return fault.Invalid("known", "not_allowed",
			"Only browsers have tokens of earlier codes. Leave known out of a request with a secret key.")
	case len(ask.KnownTokens) > MaxKnownTokens:
		return fault.Invalid("known", "too_many", "A browser presents at most 5 tokens, the newest ones.")
	case ask.Wait > 0 && ask.Kind != BackEnd:
		return fault.Invalid("prefer", "not_allowed", "Only secret keys may wait for the outcome.")
	case ask.Country != "" && !recipient.KnownCountry(ask.Country):
		return fault.Invalid("country", "unknown",
			"A country is a code of two capital letters such as DE (ISO 3166-1).")
	}
	return validateCallerCode(ask)
}

// FindPurpose finds a purpose by name; "" is the default one. Error: *fault.InvalidError.
func FindPurpose(set policy.Set, name string) (policy.Purpose, error) {
	p, ok := set.Purpose(name)
	if !ok {
		return p, fault.Invalid("purpose", "unknown", "No purpose of that name is configured.")
	}
	return p, nil
}

// Error: *fault.InvalidError, also for sms if no carrier is configured.
func (s *readService) parseRecipient(channel, to, country string) (recipient.Recipient, error) {
	if channel == string(recipient.SMS) && s.Texts == nil {
		return recipient.Recipient{}, fault.Invalid("channel", "not_configured",
			"No carrier is configured for this channel.")
	}
	return ParseRecipient(channel, to, country)
}

// ParseRecipient accepts a phone number in national form only with its country. Error:
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
	r, err := recipient.ParseInCountry(ch, to, country)
	if bad, ok := errors.AsType[*recipient.InvalidError](err); ok {
		return none, fault.Invalid("to", bad.Reason, bad.Detail)
	}
	return r, err
}

// IsPlainText reports whether s is valid UTF-8 of at most limit characters, without hidden
// characters (IsHiddenCharacter). Such a text is safe in a row, a page or a header.
func IsPlainText(s string, limit int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= limit && !strings.ContainsFunc(s, IsHiddenCharacter)
}

// IsHiddenCharacter reports whether a character is invisible: a control or format character, or a
// separator of lines or paragraphs. Such characters may control, hide or reorder text.
func IsHiddenCharacter(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}
