// Package testmessage sends one message that is not stored in the database. No rule counts it, and
// its code proves nothing. The doctor and the console use it to test whether messages go out. The
// console's text messages count for the spend caps, because they go through the service's carriers.
package testmessage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
)

// These values stand in a test message.
const (
	Code    = "000000"
	Details = "a test of sendcode, the code opens nothing"
	minutes = 10
)

// Timeout bounds the sending of one test message.
const Timeout = time.Minute

// MailRenderer is implemented by *message.MailRenderer.
type MailRenderer interface {
	Render(message.RenderRequest) (message.MailTexts, error)
}

// TextRenderer is implemented by *message.TextRenderer.
type TextRenderer interface {
	Render(message.RenderRequest) (message.RenderedText, error)
}

// MailSender is implemented by mailserver.Servers.
type MailSender interface {
	Send(ctx context.Context, m delivery.Mail) (delivery.Result, error)
}

// Carrier is implemented by *sms.Carriers.
type Carrier interface {
	Send(ctx context.Context, m sms.Message) (delivery.Result, error)
}

// Sender sends test messages through the same servers and carriers as all other messages.
type Sender struct {
	Mails    MailRenderer
	Mail     MailSender
	MailFrom string // for apps without a sender
	Domain   string // right-hand side of Message-IDs
	Texts    TextRenderer
	Carrier  Carrier // nil: there are no text messages
	Now      func() time.Time
}

// Request says to whom a test message goes, and for which app.
type Request struct {
	App         string
	AppSettings policy.App
	To          recipient.Recipient
	Locale      string // empty: the language of messages without a locale
}

// Result says whether a test message was accepted, and by which server or carrier.
type Result struct {
	Accepted bool
	Unknown  bool   // no answer came after the whole message was sent, so it may have arrived
	By       string // server or carrier; empty: none was tried
	To       string // masked
	Answer   string // if accepted, the reply codes or the carrier's ID; otherwise the refusal
	Took     time.Duration
}

// String returns the result as a sentence.
func (r Result) String() string {
	by := cmp.Or(r.By, "no server or carrier")
	if r.Unknown {
		return fmt.Sprintf("it is not known whether %s accepted it for %s: %s", by, r.To, r.Answer)
	}
	if !r.Accepted {
		return fmt.Sprintf("%s did not accept it for %s: %s", by, r.To, r.Answer)
	}
	return fmt.Sprintf("%s accepted it for %s after %d ms: %s", by, r.To, r.Took.Milliseconds(), r.Answer)
}

// ParseRecipient parses a mail address or a phone number. Error: *recipient.InvalidError.
func ParseRecipient(typed string) (recipient.Recipient, error) {
	to, err := recipient.Parse(recipient.Email, typed)
	if err != nil {
		if number, isNumber := recipient.Parse(recipient.SMS, typed); isNumber == nil {
			return number, nil
		}
	}
	return to, err
}

// Send sends a test message. It fails if the message can't be rendered, or if text messages are not
// configured. If the servers or carriers are suspended or refuse the message, the result says so.
func (s Sender) Send(ctx context.Context, r Request) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	request := message.RenderRequest{
		App: r.App, Locale: r.Locale, Data: message.AppData(r.App, r.AppSettings.Title, r.AppSettings.Brand, r.AppSettings.AndroidHash),
	}
	request.Data.Code, request.Data.Minutes = Code, minutes
	send := s.sendMail
	if r.To.Channel() == recipient.SMS {
		send = s.sendText
	}
	got, err := send(ctx, r, request)
	result := Result{By: got.Provider, To: r.To.Masked(), Took: got.Took}
	if refusal, refused := errors.AsType[*delivery.Error](err); refused {
		result.Answer, result.Unknown = refusal.Error(), refusal.Class == delivery.Unknown
		return result, nil
	}
	result.Accepted, result.Answer = err == nil, cmp.Or(got.ReplyCodes, got.CarrierID)
	return result, err
}

func (s Sender) sendMail(ctx context.Context, r Request, request message.RenderRequest) (delivery.Result, error) {
	request.Data.Details, request.Data.Requested = Details, message.DisplayedTime(s.Now())
	m, err := s.Mails.Render(request)
	if err != nil {
		return delivery.Result{}, err
	}
	return s.Mail.Send(ctx, delivery.Mail{
		MessageID: uuid.NewString() + ".test@" + s.Domain, To: r.To.Address(), Subject: m.Subject, Text: m.Text, HTML: m.HTML,
		SharedFields: delivery.SharedFields{From: cmp.Or(r.AppSettings.Sender, s.MailFrom), Language: m.Language}, Date: s.Now(),
	})
}

// ErrNoCarrier means that text messages are not configured.
var ErrNoCarrier = errors.New("no carrier is configured: add one under “sms.carriers”")

func (s Sender) sendText(ctx context.Context, r Request, request message.RenderRequest) (delivery.Result, error) {
	if s.Carrier == nil {
		return delivery.Result{}, ErrNoCarrier
	}
	m, err := s.Texts.Render(request)
	if err != nil {
		return delivery.Result{}, err
	}
	return s.Carrier.Send(ctx, sms.Message{
		ID: uuid.NewString(), App: r.App, To: r.To.Address(), Country: r.To.Country(), Prefix: r.To.VisiblePrefix(), Text: m.Text,
		Segments: m.Segments, Code: Code, Minutes: minutes, Purpose: policy.DefaultPurpose, Language: m.Language,
		Life: minutes * time.Minute,
	})
}
