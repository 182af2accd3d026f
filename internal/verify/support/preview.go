package support

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// SampleMessage is a message that the templates render for a purpose in one language, with sample
// data.
type SampleMessage struct {
	Channel  recipient.Channel
	Locale   string
	Subject  string // of a mail
	Text     string
	HTML     string // of a mail
	Segments int    // of a text message
}

// Samples of a code of digits, a code of letters, and a support reference.
const (
	sampleDigitCode        = "4829130756"
	sampleLetterCode       = "BKVXRTNZWC"
	sampleSupportReference = "S-7K3M-Q2XP"
)

// AppsAndPurposes returns the names of all apps and purposes, sorted.
func (ad *Administration) AppsAndPurposes() (apps, purposes []string) {
	set := ad.Policy.Get()
	return slices.Sorted(maps.Keys(set.Apps)), slices.Sorted(maps.Keys(set.Purposes))
}

// SampleMessages returns the messages of a purpose for an app in every language, mails before text
// messages. Errors: *fault.InvalidError if the app or purpose does not exist; fault.Unavailable if
// a template fails, which is logged.
func (ad *Administration) SampleMessages(app, purpose string) ([]SampleMessage, error) {
	set := ad.Policy.Get()
	p, err := verification.FindPurpose(set, purpose)
	if err != nil {
		return nil, err
	}
	if !set.HasApp(app) {
		return nil, fault.Invalid("app", "unknown", "There is no such app.")
	}
	digits := map[code.Alphabet]string{code.Digits: sampleDigitCode, code.Unambiguous: sampleLetterCode}[p.Alphabet]
	shown := set.Apps[app]
	request := message.RenderRequest{
		App: app, Purpose: p.Name, Notify: p.Notify, Titles: p.Titles,
		Data: message.AppData(app, shown.Title, shown.Brand, shown.AndroidHash),
	}
	request.Data.Code, request.Data.Minutes = digits[:min(max(p.CodeLength, 0), len(digits))],
		message.DisplayedMinutes(p.TTL)
	request.Data.Support = sampleSupportReference
	all, err := ad.sampleMails(request)
	if err == nil && ad.Texts != nil {
		request.Data.Support, request.Data.Minutes = "", message.DisplayedMinutes(p.Life(recipient.SMS))
		var texts []SampleMessage
		texts, err = ad.sampleTextMessages(request)
		all = append(all, texts...)
	}
	if err != nil {
		return nil, fault.Unavailable.Wrap(fmt.Errorf("templates of purpose %s: %w", p.Name, err))
	}
	return all, nil
}

func (ad *Administration) sampleMails(request message.RenderRequest) (all []SampleMessage, err error) {
	for _, request.Locale = range ad.Mails.Locales(request.App) {
		m, err := ad.Mails.Render(request)
		if err != nil {
			return nil, err
		}
		all = append(all, SampleMessage{
			Channel: recipient.Email, Locale: m.Language, Subject: m.Subject, Text: m.Text,
			HTML: m.HTML,
		})
	}
	return all, nil
}

func (ad *Administration) sampleTextMessages(request message.RenderRequest) (all []SampleMessage, err error) {
	for _, request.Locale = range ad.Texts.Locales(request.App) {
		m, err := ad.Texts.Render(request)
		if err != nil {
			return nil, err
		}
		all = append(all, SampleMessage{Channel: recipient.SMS, Locale: m.Language, Text: m.Text, Segments: m.Segments})
	}
	return all, nil
}

// PreviewRequest is an administrator's request for a message as recipients receive it.
type PreviewRequest struct {
	App, Channel, To, Purpose, Locale string
	From                              netip.Addr // the administrator's address
}

// previewSession is the session of previews, so that a preview is never a resend of a code that a
// person requested.
const previewSession = "sendcode preview"

// SendPreview sends a new code, as a back end would: both gates decide, and the send is written to
// the database. It records the preview before it sends. Errors: *fault.InvalidError,
// fault.Unavailable.
func (ad *Administration) SendPreview(ctx context.Context, t PreviewRequest, act store.AuditEntry) (verification.Answer, error) {
	p, err := ad.ParseTarget(t.App, t.Channel, t.To, t.Purpose, act.Reason)
	if err != nil {
		return verification.Answer{}, err
	}
	if t.App == "" {
		return verification.Answer{}, fault.Invalid("app", "unknown", "There is no such app.")
	}
	return ad.sendWithAuditEntries(ctx, verification.Request{
		Caller: verification.Caller{App: t.App, Kind: verification.BackEnd, IP: t.From}, Channel: t.Channel, To: t.To,
		Purpose: t.Purpose,
		Locale:  t.Locale,
		Labels:  store.Labels{Reference: "preview"}, Session: previewSession,
	}, p.auditEntryWithTarget(act))
}
