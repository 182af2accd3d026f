package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/language"

	"sendcode/internal/recipient"
	"sendcode/internal/texts"
)

// cardTexts is every word of the page in one language. Patterns hold names in braces; {t}, {c} and {d} stand for a time
// left (0:42), a time of the day (14:32) and a duration (28 min), and are also filled in by static/page.js. Where a
// text has a twin with Else, the twin serves readers whose time zone the server cannot know: those without scripts.
type cardTexts struct {
	Lang string // BCP 47
	Dir  string

	// Ask
	AskHeading, AskHeadingApp string // {app}
	AskLead                   string
	AskLeadDigits             string // {n}
	AskLeadCharacters         string // {n}
	AskLeadEither             string
	AskLeadEitherDigits       string // {n}
	AskLeadEitherCharacters   string // {n}
	AddressLabel              string
	SendCode                  string
	DidYouMean                string // {domain}
	MeantAsIs                 string // {domain}
	UseInstead                string // {domain}
	BackToCode                string
	HaveCode                  string // where no code is waited for
	FreeNow                   string
	Stale                     string
	BadAddress                map[string]string // by reason of package recipient
	BadAddressElse            string

	// The choice between the channels
	ChannelLabel, ByMail, BySMS string
	CountryLabel                string
	PhoneHint                   string // {example}
	PhoneHintOne                string // {country} {dial} {example}
	PhoneHintAny                string
	Landline, LandlineAsIs      string
	MailInstead                 string // after what is wrong with a number
	InsteadMail, InsteadSMS     string
	InsteadIn, InsteadAt        string // {t}; {c} {d}: stand after the recipient there
	InsteadElse, InsteadNow     string // {d}
	EnterMailCode, EnterSMSCode string

	// Code
	OnItsWay, CheckMail, MayArrive   string
	SendingTo, SentTo, MaybeSentTo   string // {to}
	SentAgainTo                      string // {to}
	Change                           string
	CodeLabel                        string
	CheckCode                        string
	CodeHint, CodeHintCharacters     string // {n}
	CodeRequired                     string
	CodeNotDigits, CodeNotCharacters string
	CodeLength, CodeLengthCharacters string // {n}
	TooManyChecks                    string
	WrongCode                        plurals // {n}: tries left
	WorksUntil, WorksElse            string  // {c}; {d}
	LookAgain                        string
	ResendFailed                     string
	NotArrived, NotArrivedLead       string // the network could not hand it over

	// The button that counts
	SendAgain, NextCode, NewCode string
	In, At                       string // {t}; {c} {d}: stand after the button's label
	InElse                       string // {d}
	TimerIn, TimerAt, TimerElse  string // {d}; {c} {d}; {d}: for screen readers
	AvailableNow                 string

	// Help
	NothingYet                  string
	AcceptedAt, AcceptedElse    string // {c}; {d}
	NotAcceptedYet, AcceptedHow string
	HasArrived                  string
	LookInSpam, LookInSpamFor   string // {sender}; {sender} {subject}
	LookInSpamElse              string
	IsAddressRight              string // {to}
	SameCode, FreshCode         string
	AnotherNow                  string
	AnotherAt, AnotherElse      string // {c} {d}; {d}

	// Enough
	EnoughMinute, EnoughHour, EnoughDay, EnoughWeek, EnoughMonth, Enough string
	SentSince, SentElse, SentWithin                                      plurals // {n}, and {to} {c}; {to} {d}; {to} {when}
	EnoughAll, EnoughAllLead                                             string  // {to}
	EnoughNetwork, EnoughNetworkLead                                     string
	EnoughFailures, EnoughFailuresLead                                   string // {to}
	EnoughCarrier, EnoughCarrierLead                                     string // {to}
	LastCodeUntil, LastCodeElse                                          string // {c}; {d}
	EnterIt                                                              string

	// Ends
	NotDelivered, NotDeliveredLead, DidNotCount, DidNotCountNow string // {to}
	ChangeAddress, TryAgain                                     string
	Expired, ExpiredLead                                        string // {d}
	TooManyTries, TooManyTriesLead                              string
	Canceled, CanceledLead                                      string
	Used, UsedLead                                              string
	GoesTo                                                      string // {to}
	Crowded, CrowdedLead, CrowdedCode                           string // too many requests from one network; {d}
	Away, AwayLead, AwayKept, AwayCode                          string // {to}
	Approved, ApprovedLead, GoOn, GoOnApp, Continue, Another    string // {to}, {app}

	// The widget alone
	Misplaced, MisplacedLead, Unconfirmed string

	// Pips
	ThisHour, Today, ThisWeek, ThisMonth string  // by the calendar
	PerMinute, PerHour, PerDay, Within   string  // in any such time; {d}
	YourNetwork, AllTogether             string  // rules that are not the recipient's
	PipsIn, PipsAt, PipsElse             string  // {t}; {c}; {d}
	PipsLeft                             plurals // {n}
	PipsSpoken                           string  // {used} {limit}
	PipsLabel                            string
	CarrierRule                          string

	// Everywhere
	Offline, Trouble                      string
	Days                                  plurals // {n}
	HoursMinutes, Hours, Minutes, Seconds string  // {h} {m}; {h}; {m}; {s}: durations; page.js has them too
	SupportReference                      string  // {ref}
	Stop                                  string  // ends a heading that a sentence follows
	Separator                             string  // between sentences

	phones *cardTexts // the same, where codes go to phones
}

// plurals is a text about a number {n} of things, by form: each that its language has.
type plurals map[string]string

// count returns the plural form of a text for n things.
func (t *cardTexts) count(forms plurals, n int) string {
	return fill(forms[texts.Form(language.Make(t.Lang), n)], "n", strconv.Itoa(n))
}

// fill replaces names in a pattern by values: fill("{n} left", "n", "3").
func fill(pattern string, pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		pairs[i] = "{" + pairs[i] + "}"
	}
	return strings.NewReplacer(pairs...).Replace(pattern)
}

// emphasise is fill for HTML: values are set in bold, and everything is escaped.
func emphasise(pattern string, pairs ...string) template.HTML {
	for i := 1; i < len(pairs); i += 2 {
		pairs[i] = `<strong dir="auto">` + template.HTMLEscapeString(pairs[i]) + "</strong>"
	}
	return template.HTML(fill(template.HTMLEscapeString(pattern), pairs...))
}

// channelName returns the name of a channel where there is a choice.
func (t *cardTexts) channelName(ch recipient.Channel) string {
	if ch == recipient.SMS {
		return t.BySMS
	}
	return t.ByMail
}

// catalogues are the languages of the page, as they speak of mails, English first.
var catalogues = sync.OnceValue(func() (all []*cardTexts) {
	for _, w := range texts.Pages() {
		mails, phones := &cardTexts{}, &cardTexts{}
		decode(w.Forms(texts.Page), mails)
		decode(w.Forms(texts.Page), phones)
		phones.BadAddress = nil // a number's reasons are its own
		decode(w.Forms(texts.Phone), phones)
		mails.phones = phones
		all = append(all, mails)
	}
	return all
})

// decode fills a struct from a section by its fields' names. It panics at a key that no field has.
func decode(section map[string]any, into *cardTexts) {
	text, _ := json.Marshal(section) // of strings it cannot fail
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		panic(fmt.Errorf("texts of the page: %w", err))
	}
}

// forChannel returns the texts in the version for a channel.
func (t *cardTexts) forChannel(ch recipient.Channel) *cardTexts {
	if ch == recipient.SMS && t.phones != nil {
		return t.phones
	}
	return t
}
