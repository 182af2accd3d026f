package doctor

import (
	"context"
	"errors"
	"slices"

	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/deliver/testmessage"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
)

const testMessage = "test message"

// ParseTestRecipient parses the mail address or phone number of a test message. Error:
// *recipient.InvalidError.
func ParseTestRecipient(typed string) (recipient.Recipient, error) {
	return testmessage.ParseRecipient(typed)
}

// sendTestMessage sends one message by the configured servers or carriers, with the title, sender
// and templates of cfg.TestApp, or else of the first app.
func (d *doctor) sendTestMessage(ctx context.Context) {
	result, err := d.testMessage(ctx)
	switch {
	case err != nil:
		d.fail(testMessage, err.Error())
	case !result.Accepted:
		d.fail(testMessage, result.String())
	default:
		d.pass(testMessage, result.String())
	}
}

func (d *doctor) testMessage(ctx context.Context) (testmessage.Result, error) {
	to, err := testmessage.ParseRecipient(d.cfg.TestRecipient)
	if err != nil {
		return testmessage.Result{}, err
	}
	testApp, err := d.testApp()
	if err != nil {
		return testmessage.Result{}, err
	}
	s := testmessage.Sender{MailFrom: d.cfg.MailFrom, Domain: d.cfg.MailDomain(), Now: d.now}
	if to.Channel() == recipient.SMS {
		s.Texts, err = app.NewTextRenderer(d.cfg, testApp.Templates)
		if len(d.cfg.SMS.Carriers) > 0 {
			s.Carrier = sms.NewCarriers(app.CarrierRoutes(d.cfg), sms.CarriersOptions{
				Sender: d.cfg.SMS.Senders["default"], Senders: d.cfg.SMS.Senders, OnHealthChange: func(delivery.Health) {},
			})
		}
	} else {
		s.Mails, err = app.NewMailRenderer(d.cfg, testApp.Templates)
		if err == nil {
			var closeServers func()
			if s.Mail, closeServers, err = d.openMailServers(); err == nil {
				defer closeServers()
			}
		}
	}
	if err != nil {
		return testmessage.Result{}, err
	}
	return s.Send(ctx, testmessage.Request{App: testApp.Name, AppSettings: d.cfg.PolicySet(d.now()).Apps[testApp.Name], To: to})
}

func (d *doctor) testApp() (config.App, error) {
	switch i := slices.IndexFunc(d.cfg.Apps, func(a config.App) bool { return a.Name == d.cfg.TestApp }); {
	case i >= 0:
		return d.cfg.Apps[i], nil
	case d.cfg.TestApp != "":
		return config.App{}, errors.New("there is no app " + d.cfg.TestApp)
	case len(d.cfg.Apps) > 0:
		return d.cfg.Apps[0], nil
	}
	return config.App{Name: "default"}, nil
}

// openMailServers opens the configured mail servers. If err is nil, the caller must call closeAll.
func (d *doctor) openMailServers() (servers mailserver.Servers, closeAll func(), err error) {
	if d.cfg.SMTPURL == "" {
		return servers, nil, errors.New("no mail server is configured: give SENDCODE_SMTP_URL")
	}
	tokens := d.cfg.TokenSources()
	configs, err := mailserver.ParseURLs(d.cfg.SMTPURL, tokens)
	if err == nil {
		servers, err = mailserver.Open(configs, d.cfg.MailDomain())
	}
	if err != nil {
		return servers, nil, errors.Join(err, tokens.Close())
	}
	return servers, func() { _ = errors.Join(servers.Close(), tokens.Close()) }, nil
}
