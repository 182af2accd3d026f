package verification

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"sendcode/internal/message"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// Sample is a message as a purpose's templates make it in one language, with data that is nobody's.
type Sample struct {
	Channel  recipient.Channel
	Locale   string
	Subject  string // of a mail
	Text     string
	HTML     string // of a mail
	Segments int    // of a text message
}

// What samples hold in place of a code, of digits and of letters, and of a reference.
const (
	sampleDigits    = "4829130756"
	sampleLetters   = "BKVXRTNZWC"
	sampleReference = "S-7K3M-Q2XP"
)

// Previewable are the apps and purposes that there are templates for, in order.
func (s *Service) Previewable() (apps, purposes []string) {
	terms := s.Terms()
	return slices.Sorted(maps.Keys(terms.Titles)), slices.Sorted(maps.Keys(terms.Purposes))
}

// Samples are the messages of a purpose for an app, mails before text messages, each in every language that it can have.
// Errors: *InvalidError when there is no such app or purpose; a template that fails is ErrUnavailable, and is in the
// process's log.
func (s *Service) Samples(app, purpose string) ([]Sample, error) {
	terms := s.Terms()
	p, err := terms.purpose(purpose)
	if err != nil {
		return nil, err
	}
	title, known := terms.Titles[app]
	if !known {
		return nil, invalid("app", "unknown", "There is no such app.")
	}
	digits := map[Alphabet]string{Digits: sampleDigits, Unambiguous: sampleLetters}[p.Alphabet]
	request := message.Request{Purpose: p.Name, Notify: p.Notify, Data: message.Data{
		App: or(title, app), Code: digits[:min(max(p.CodeLength, 0), len(digits))], Minutes: minutes(p.Life), Support: sampleReference,
	}}
	all, err := s.sampleMails(request)
	if err == nil && s.Carrier != nil {
		request.Data.Support = ""
		var texts []Sample
		texts, err = s.sampleTexts(request)
		all = append(all, texts...)
	}
	if err != nil {
		s.Logger.Error("a template could not be shown", "purpose", p.Name, "error", err)
		return nil, ErrUnavailable
	}
	return all, nil
}

func (s *Service) sampleMails(request message.Request) (all []Sample, err error) {
	for _, request.Locale = range s.Renderer.Locales() {
		m, err := s.Renderer.Render(request)
		if err != nil {
			return nil, err
		}
		all = append(all, Sample{Channel: recipient.Email, Locale: m.Language, Subject: m.Subject, Text: m.Text, HTML: m.HTML})
	}
	return all, nil
}

func (s *Service) sampleTexts(request message.Request) (all []Sample, err error) {
	for _, request.Locale = range s.Texts.Locales() {
		m, err := s.Texts.Render(request)
		if err != nil {
			return nil, err
		}
		all = append(all, Sample{Channel: recipient.SMS, Locale: m.Language, Text: m.Text, Segments: m.Segments})
	}
	return all, nil
}

// Trial asks for a message as people get it, to whoever wants to see one.
type Trial struct {
	App, Channel, To, Purpose, Locale string
	From                              netip.Addr // where the request comes from
}

// trialSession keeps what is sent for a trial apart from what people asked for.
const trialSession = "sendcode preview"

// Try sends a code as any back end could have it sent, with a code of its own that nobody waits for: it is in the log, the
// recipient's rules decide, and the way is the one of every send. That it was asked for is recorded before. Errors:
// *InvalidError, ErrUnavailable.
func (s *Service) Try(ctx context.Context, t Trial, act store.AuditEntry) (Answer, error) {
	p, err := s.Person(t.App, t.Channel, t.To, t.Purpose, act.Reason)
	if err != nil {
		return Answer{}, err
	}
	if t.App == "" {
		return Answer{}, invalid("app", "unknown", "There is no such app.")
	}
	return s.sendFor(ctx, Ask{
		Caller: Caller{App: t.App, Kind: Secret, IP: t.From}, Channel: t.Channel, To: t.To, Purpose: t.Purpose, Locale: t.Locale,
		Reference: "preview", Session: trialSession,
	}, p.on(act))
}
