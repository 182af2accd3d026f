package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
)

// Values of a test message. The code opens nothing, since no database has it.
const (
	testCode    = "000000"
	testMinutes = 10
	testDetails = "a test by sendcode doctor, the code opens nothing"
	testTimeout = time.Minute
)

// TestRecipient parses the mail address or phone number of a test message. Error:
// *recipient.InvalidError.
func TestRecipient(typed string) (recipient.Recipient, error) {
	to, err := recipient.Parse(recipient.Email, typed)
	if err != nil {
		if number, isNumber := recipient.Parse(recipient.SMS, typed); isNumber == nil {
			return number, nil
		}
	}
	return to, err
}

// sendTestMessage sends one message by the configured servers or carriers, with the first app's own
// title, sender and templates. It is in no database, and no rule or spend cap counts it.
func (d *doctor) sendTestMessage(ctx context.Context) {
	to, err := TestRecipient(d.cfg.TestRecipient)
	if err != nil {
		d.fail("test message", err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	its := config.App{Name: "default"}
	if len(d.cfg.Apps) > 0 {
		its = d.cfg.Apps[0]
	}
	set := d.cfg.PolicySet(d.now()).Apps[its.Name]
	request := message.RenderRequest{App: its.Name, Data: message.AppData(its.Name, set.Title, set.Brand, set.AndroidHash)}
	request.Data.Code, request.Data.Minutes = testCode, testMinutes
	send := d.sendTestMail
	if to.Channel() == recipient.SMS {
		send = d.sendTestText
	}
	result, err := send(ctx, to, its, request)
	by := cmp.Or(result.Provider, "no server or carrier")
	if fail, ok := errors.AsType[*delivery.Error](err); ok {
		d.fail("test message", fmt.Sprintf("%s did not accept it for %s: %v", by, to.Masked(), fail))
		return
	}
	if err != nil {
		d.fail("test message", err.Error())
		return
	}
	d.pass("test message", fmt.Sprintf("%s accepted it for %s after %d ms: %s", by, to.Masked(), result.Took.Milliseconds(),
		cmp.Or(result.ReplyCodes, result.CarrierID)))
}

func (d *doctor) sendTestMail(ctx context.Context, to recipient.Recipient, its config.App, request message.RenderRequest,
) (delivery.Result, error) {
	if d.cfg.SMTPURL == "" {
		return delivery.Result{}, errors.New("no mail server is configured: give SENDCODE_SMTP_URL")
	}
	renderer, err := app.NewMailRenderer(d.cfg, its.Templates)
	if err != nil {
		return delivery.Result{}, err
	}
	request.Data.Details, request.Data.Requested = testDetails, message.DisplayedTime(d.now())
	m, err := renderer.Render(request)
	if err != nil {
		return delivery.Result{}, err
	}
	tokens := d.cfg.TokenSources()
	defer func() { _ = tokens.Close() }()
	configs, err := mailserver.ParseURLs(d.cfg.SMTPURL, tokens)
	if err != nil {
		return delivery.Result{}, err
	}
	servers, err := mailserver.Open(configs, d.cfg.MailDomain())
	if err != nil {
		return delivery.Result{}, err
	}
	defer func() { _ = servers.Close() }()
	return servers.Send(ctx, delivery.Mail{
		MessageID: uuid.NewString() + ".test@" + d.cfg.MailDomain(), To: to.Address(), Subject: m.Subject, Text: m.Text, HTML: m.HTML,
		SharedFields: delivery.SharedFields{From: cmp.Or(its.MailFrom, d.cfg.MailFrom), Language: m.Language}, Date: d.now(),
	})
}

func (d *doctor) sendTestText(ctx context.Context, to recipient.Recipient, its config.App, request message.RenderRequest,
) (delivery.Result, error) {
	if len(d.cfg.SMS.Carriers) == 0 {
		return delivery.Result{}, errors.New("no carrier is configured: they are under “sms.carriers”")
	}
	renderer, err := app.NewTextRenderer(d.cfg, its.Templates)
	if err != nil {
		return delivery.Result{}, err
	}
	m, err := renderer.Render(request)
	if err != nil {
		return delivery.Result{}, err
	}
	carriers := sms.NewCarriers(app.CarrierRoutes(d.cfg), sms.CarriersOptions{
		Sender: d.cfg.SMS.Senders["default"], Senders: d.cfg.SMS.Senders, OnHealthChange: func(delivery.Health) {},
	})
	return carriers.Send(ctx, sms.Message{
		ID: uuid.NewString(), App: its.Name, To: to.Address(), Country: to.Country(), Prefix: to.VisiblePrefix(), Text: m.Text,
		Segments: m.Segments, Code: testCode, Minutes: testMinutes, Purpose: "default", Language: m.Language,
		Life: testMinutes * time.Minute,
	})
}
