package verification

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"sendcode/internal/message"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// Ask is one request for a code, as it came in.
type Ask struct {
	Caller
	Channel   string
	To        string
	Country   string        // ISO 3166-1 alpha-2: where a phone number in To is dialled, if it is not international; empty: nowhere
	Purpose   string        // empty: default
	Locale    string        // a BCP 47 tag of at most 35 characters; empty: see Languages
	Languages string        // an Accept-Language list; what cannot be read of it is as good as none
	Reference string        // the app's own word for it, at most 64 characters
	Session   string        // secret keys: names the end user's session, at most 128 characters
	Wait      time.Duration // secret keys: for the outcome, at most MaxWait; 0: answer at once
	Resend    string        // ID of a verification; Channel, To and Purpose may then be left out
	Key       string        // requests of one caller with the same key are one request, for 24 h; empty: each is its own
}

// asked is an Ask that has been understood.
type asked struct {
	Ask
	purpose Purpose
	to      recipient.Recipient
	hash    recipient.Hash
	area    area
	holder  string
	join    string
	// joinByBrowser says who opened the verification to join.
	joinByBrowser bool
	longer        bool   // a new code has LongCode characters at least
	locale        string // canonical
	own           State  // of the verification that the request names; empty: it names none
	turn          *turn
}

// Bounds of what callers may attach.
const (
	maxReference = 64
	maxSession   = 128
)

func (s *Service) understand(ctx context.Context, ask Ask) (asked, error) {
	a := asked{Ask: ask}
	if err := checkAttached(ask); err != nil {
		return a, err
	}
	if ask.Resend != "" {
		if err := s.recall(ctx, &a); err != nil {
			return a, err
		}
	}
	var err error
	if a.purpose, err = s.purposeFor(a.Caller, a.Purpose); err != nil {
		return a, err
	}
	if a.to, err = s.parse(a.Channel, a.To, a.Country); err != nil {
		return a, err
	}
	a.purpose = a.purpose.on(a.to.Channel())
	a.hash, a.area, a.locale = s.hash(a.to), s.area(a.to), s.locale(a)
	if err = s.Terms().served(a.to); err != nil {
		s.turnedAway(a, err)
		return a, err
	}
	if ask.Kind == Secret {
		a.holder = s.holder(a)
	}
	return a, nil
}

// recall fills in what a resend leaves out from the verification that it names. What it does name must agree: a
// different recipient under a known ID is a mistake of the caller's, not a new request.
func (s *Service) recall(ctx context.Context, a *asked) error {
	v, _, now, err := s.lookup(ctx, a.Caller, a.Resend)
	if err != nil {
		return err
	}
	if len(v.Sealed) == 0 { // erased
		return ErrNotFound
	}
	to, err := s.recipientOf(v)
	if err != nil {
		return ErrUnavailable
	}
	if a.To != "" {
		given, err := s.parse(or(a.Channel, string(v.Channel)), a.To, a.Country)
		if err != nil {
			return err
		}
		if given.Hash(s.IndexKey) != to.Hash(s.IndexKey) {
			return invalid("to", "mismatch", "The verification named belongs to another recipient.")
		}
	}
	if a.Channel != "" && a.Channel != string(v.Channel) {
		return invalid("channel", "mismatch", "The verification named uses another channel.")
	}
	if a.Purpose != "" && a.Purpose != v.Purpose {
		return invalid("purpose", "mismatch", "The verification named has another purpose.")
	}
	a.Channel, a.To, a.Purpose, a.join, a.own = string(v.Channel), to.Address(), v.Purpose, v.ID, stateOf(v, now)
	a.Languages = or(a.Languages, v.Locale)
	a.joinByBrowser = v.ByBrowser
	a.Reference = or(a.Reference, v.Reference)
	return nil
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func checkAttached(ask Ask) error {
	switch {
	case !plain(ask.Reference, maxReference):
		return invalid("reference", "invalid", "A reference has at most 64 characters and no control characters.")
	case !plain(ask.Session, maxSession):
		return invalid("session", "invalid", "A session has at most 128 characters and no control characters.")
	case ask.Session != "" && ask.Kind != Secret:
		return invalid("session", "not_allowed", "Only secret keys may name a session.")
	case ask.Wait > 0 && ask.Kind != Secret:
		return invalid("prefer", "not_allowed", "Only secret keys may wait for the outcome.")
	case ask.Country != "" && !recipient.KnownCountry(ask.Country):
		return invalid("country", "unknown", "A country is a code of two capital letters such as DE (ISO 3166-1).")
	case !validLocale(ask.Locale):
		return invalid("locale", "invalid", "A locale is one language tag such as en or zh-CN (BCP 47), of at most 35 characters.")
	}
	return nil
}

func validLocale(text string) bool {
	_, ok := message.Canonical(text)
	return ok || text == ""
}

// locale is the language that the message is asked to be written in, as it is stored: the one that is named, else the one of the
// client's list that there are templates for.
func (s *Service) locale(a asked) string {
	switch {
	case a.Locale != "":
		tag, _ := message.Canonical(a.Locale) // checkAttached has seen to it
		return tag
	case a.to.Channel() == recipient.SMS:
		return s.Texts.Prefer(a.Languages)
	}
	return s.Renderer.Prefer(a.Languages)
}

func (s *Service) purpose(name string) (Purpose, error) { return s.Terms().purpose(name) }

func (t Terms) purpose(name string) (Purpose, error) {
	p, ok := t.Purposes[or(name, "default")]
	if !ok {
		return Purpose{}, invalid("purpose", "unknown", "No purpose of that name is configured.")
	}
	return p, nil
}

// parse reads a recipient of a channel that there is.
func (s *Service) parse(channel, to, country string) (recipient.Recipient, error) {
	if channel == string(recipient.SMS) && s.Carrier == nil {
		return recipient.Recipient{}, invalid("channel", "not_configured", "No carrier is configured for this channel.")
	}
	return parseRecipientIn(channel, to, country)
}

func parseRecipient(channel, to string) (recipient.Recipient, error) {
	return parseRecipientIn(channel, to, "")
}

func parseRecipientIn(channel, to, country string) (recipient.Recipient, error) {
	var none recipient.Recipient
	if channel == "" {
		return none, invalid("channel", "required", "The channel is missing; it is email or sms.")
	}
	ch, err := recipient.ParseChannel(channel)
	if err != nil {
		return none, invalid("channel", "unsupported", "This channel is not supported; email and sms are.")
	}
	if to == "" {
		return none, invalid("to", "required", "The recipient is missing.")
	}
	r, err := recipient.ParseIn(ch, to, country)
	var bad *recipient.InvalidError
	if errors.As(err, &bad) {
		return none, invalid("to", bad.Reason, bad.Detail)
	}
	return r, err
}

// holder names who may resend without knowing the ID: a secret key's app and the session that it names, and of a mailbox
// with several spellings the one that was typed. Only a hash is kept.
func (s *Service) holder(a asked) string {
	text := "sendcode holder v1\x00" + a.Session
	if spelling := a.to.Hash(s.IndexKey); spelling != a.hash {
		text = "sendcode holder spelling v1\x00" + spelling.String() + a.Session
	}
	sum := sha256.Sum256([]byte(text))
	return "s:" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// row is what the log writes of the request, whether it is let in or refused.
func (a asked) row() store.Send {
	row := store.Send{
		App: a.App, Channel: a.to.Channel(), Purpose: a.purpose.Name, Recipient: a.hash, To: a.to.Masked(),
		Country: a.to.Country(), Prefix: a.to.Range(), Locale: a.locale, Reference: a.Reference, VerificationID: a.join,
	}
	if a.IP.IsValid() {
		row.IP = network(a.IP, 24, 48)
	}
	return row
}
