package support

import (
	"fmt"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/verify/verification"
)

// SampleMessage is a message as it goes out, with dots in place of its code.
type SampleMessage struct {
	Channel  recipient.Channel `json:"channel"`
	Language string            `json:"language"` // BCP 47 tag
	Subject  string            `json:"subject,omitempty"`
	Text     string            `json:"text"`
	HTML     string            `json:"html,omitempty"`
	Segments int               `json:"segments,omitempty"` // of a text message
}

const sampleSupportReference = "S-7K3M-Q2XP"

// Messages returns the messages of a purpose for an app in each language, mails before text
// messages. Errors: *fault.InvalidError if the app or the purpose doesn't exist; fault.Unavailable
// if a template fails.
func (ad *Administration) Messages(app, purpose string) (all []SampleMessage, err error) {
	set := ad.Policy.Get()
	p, err := verification.FindPurpose(set, purpose)
	switch {
	case err != nil:
		return nil, err
	case !set.HasApp(app):
		return nil, fault.Invalid("app", "unknown", "There is no such app.")
	}
	its := set.Apps[app]
	request := message.RenderRequest{
		App: app, Purpose: p.Name, Notify: p.Notify, Titles: p.Titles,
		Data: message.AppData(app, its.Title, its.Brand, its.AndroidHash),
	}
	request.Data.Code, request.Data.Minutes = message.SampleCode, message.DisplayedMinutes(p.TTL)
	request.Data.Requested, request.Data.Support = message.DisplayedTime(ad.Now()), sampleSupportReference
	request.Data.NotMe = ad.NotMeURL
	if ad.NotMeURL != "" {
		request.Data.NotMe += "sample"
	}
	for _, request.Locale = range ad.Mails.Languages(app) {
		m, err := ad.Mails.Render(request)
		if err != nil {
			return nil, fault.Unavailable.Wrap(fmt.Errorf("templates of purpose %s: %w", p.Name, err))
		}
		all = append(all, SampleMessage{
			Channel: recipient.Email, Language: m.Language, Subject: message.HideSampleCode(m.Subject),
			Text: message.HideSampleCode(m.Text), HTML: message.HideSampleCode(m.HTML),
		})
	}
	if ad.Texts == nil {
		return all, nil
	}
	request.Data.Requested, request.Data.Support, request.Data.NotMe = "", "", ""
	request.Data.Minutes = message.DisplayedMinutes(p.Life(recipient.SMS))
	for _, request.Locale = range ad.Texts.Languages(app) {
		m, err := ad.Texts.Render(request)
		if err != nil {
			return nil, fault.Unavailable.Wrap(fmt.Errorf("templates of purpose %s: %w", p.Name, err))
		}
		all = append(all, SampleMessage{
			Channel: recipient.SMS, Language: m.Language, Text: message.HideSampleCode(m.Text), Segments: m.Segments,
		})
	}
	return all, nil
}
