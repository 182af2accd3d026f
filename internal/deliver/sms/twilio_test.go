package sms_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/deliver/sms/smstest"
)

const twilioAccount = "AC00000000000000000000000000000001"

var twilioLogin = providerhttp.BasicAuth(twilioAccount, smstest.Private)

func twilioRig() smstest.Rig {
	failure := func(status int, code string) smstest.Answer {
		return smstest.Reply(status, `{"code": `+code+`, "message": "`+smstest.Private+
			` +8613812345678", "more_info": "https://www.twilio.com/docs/errors/x", "status": `+fmt.Sprint(status)+`}`)
	}
	failed := func(code string) smstest.Answer {
		return smstest.Reply(201, `{"sid": "SM1", "status": "failed", "error_code": `+code+`}`)
	}
	return smstest.Rig{
		Name: "twilio", ID: "SM1f0e8ae6ade43cb3c0ce4525424e404f",
		Accepted: smstest.Reply(201,
			`{"sid": "SM1f0e8ae6ade43cb3c0ce4525424e404f", "status": "queued", "error_code": null, "body": "739154"}`),
		Make: func(t *testing.T, endpoint string) sms.Carrier {
			return sms.Twilio{Account: twilioAccount, Endpoint: endpoint}.Open(sms.Setup{Name: "twilio", Secret: smstest.Private})
		},
		Check: func(r *http.Request, body string) error {
			m := smstest.Sample()
			form := url.Values{
				"To": {m.To}, "From": {m.Sender}, "Body": {m.Text}, "StatusCallback": {m.CallbackURL},
				"ValidityPeriod": {"540"},
			}
			return smstest.Want([]string{r.Method, r.URL.Path, r.Header.Get("Authorization"), body},
				"POST", "/2010-04-01/Accounts/"+twilioAccount+"/Messages.json", twilioLogin, form.Encode())
		},
		Cases: map[string]smstest.Outcome{
			"invalid number":           smstest.Case(failure(400, "21211"), delivery.Rejected, "", 0),
			"stopped":                  smstest.Case(failure(400, "21610"), delivery.Rejected, sms.ReasonOptedOut, 0),
			"region":                   smstest.PerNumber(failure(400, "21408")),
			"queue":                    smstest.Case(failure(429, "20429"), delivery.Temporary, "", 0),
			"our account":              smstest.Case(failure(400, "30002"), delivery.Temporary, "", 0),
			"a new code":               smstest.PerNumber(failure(400, "21999")),
			"their error, with a code": smstest.Case(failure(500, "21610"), delivery.Unknown, "", 0),
			"failed, a new code":       smstest.PerNumber(failed("39999")),
			"failed, no code":          smstest.PerNumber(failed("null")),
			"failed, unregistered":     smstest.PerNumber(failed("30034")),
			"failed, our account":      smstest.Case(failed("30002"), delivery.Temporary, "", 0),
			"failed, filtered":         smstest.Case(failed("30007"), delivery.Rejected, "", 0),
			"failed, a landline":       smstest.Case(failed("30006"), delivery.Rejected, "", 0),
		},
	}
}

func TestTwilioWithServiceAndKey(t *testing.T) {
	const service, key = "MG00000000000000000000000000000002", "SK00000000000000000000000000000003"
	f := smstest.NewFake(t, smstest.Rig{Check: func(r *http.Request, body string) error {
		got, _ := url.ParseQuery(body)
		user, _, _ := r.BasicAuth()
		return smstest.Want([]string{got.Get("MessagingServiceSid"), got.Get("From"), user}, service, "", key)
	}}, smstest.Says(twilioRig().Accepted))
	c := sms.Twilio{
		Account: twilioAccount, Key: key, Service: service,
		Endpoint: f.URL,
	}.Open(sms.Setup{Name: "t", Secret: smstest.Private})
	m := smstest.Sample()
	m.Sender = ""
	if _, err := c.Send(t.Context(), m); err != nil {
		t.Error(err)
	}
}

func TestTwilioContract(t *testing.T) { smstest.Contract(t, twilioRig()) }

// A message that Twilio is sending is not offered to another carrier, whatever error code its
// status has.
func TestTwilioCodeOfAMessageUnderWay(t *testing.T) {
	f := smstest.NewFake(t, twilioRig(), smstest.Says(smstest.Reply(201, `{"sid": "SM1", "status": "queued", "error_code": 30034}`)))
	if _, fail := smstest.Send(t, t.Context(), twilioRig().Make(t, f.URL)); fail != nil {
		t.Error(fail)
	}
}

const twilioMessage = "SM00000000000000000000000000000009"

func TestTwilioPollStatus(t *testing.T) {
	smstest.PollContract(t, smstest.PollRig{
		Rig: twilioRig(), ID: twilioMessage,
		Check: func(r *http.Request, body string) error {
			return smstest.Want([]string{r.Method, r.URL.Path, r.Header.Get("Authorization"), body},
				"GET", "/2010-04-01/Accounts/"+twilioAccount+"/Messages/"+twilioMessage+".json", twilioLogin, "")
		},
		Delivered: `{"sid":"` + twilioMessage + `","status":"delivered"}`,
		Lost:      `{"sid":"` + twilioMessage + `","status":"undelivered"}`,
		Open:      `{"sid":"` + twilioMessage + `","status":"sent"}`, Refusal: smstest.Reply(404, `{"code":20404}`),
	})
	if _, _, err := twilioRig().Make(t, "https://api.twilio.com").(sms.Poller).PollStatus(t.Context(),
		smstest.StatusQueryOf("../../x")); err == nil {
		t.Error("an ID that is none was asked for")
	}
}

func TestTwilioSettings(t *testing.T) {
	smstest.CheckSettings(t, map[string]map[string]error{
		"account":  sms.Twilio{Account: "x"}.Check(),
		"service":  sms.Twilio{Account: twilioAccount, Service: "x"}.Check(),
		"key":      sms.Twilio{Account: twilioAccount, Key: twilioAccount}.Check(),
		"endpoint": sms.Twilio{Account: twilioAccount, Endpoint: "http://x.example"}.Check(),
	})
}

func TestTwilioProbe(t *testing.T) {
	login := func(r *http.Request, _ string) error {
		return smstest.Want([]string{r.Method, r.Header.Get("Authorization")}, "GET", twilioLogin)
	}
	smstest.ProbeContract(t, twilioRig(), login, smstest.Reply(404, `{"code":20404}`), nil)
	smstest.ProbeContract(t, twilioRig(), login, smstest.Reply(401, `{"code":20003,"message":"`+smstest.Private+`"}`), sms.ErrLogin)
	smstest.ProbeContract(t, twilioRig(), login, smstest.Reply(500, smstest.Private), sms.ErrUndocumentedAnswer)
}

// The example comes from the vendor's own libraries (twilio-ruby,
// spec/security/request_validator_spec.rb).
func TestTwilioSignatureAsPublished(t *testing.T) {
	form, err := url.ParseQuery(
		"ToState=California&CalledState=California&Direction=inbound&FromState=CA&FromCity=SAN+FRANCISCO&To=%2B14157669926" +
			"&AccountSid=ACba8bc05eacf94afdae398e642c9cc32d&Caller=%2B14153595711&CallerZip=94108&CallerCountry=US&From=%2B14153595711&ToCity=" +
			"&CallerCity=SAN+FRANCISCO&FromZip=94108&FromCountry=US&CallStatus=ringing&CalledCity=&CallerState=CA&CalledZip=&ToZip=&ToCountry=US" +
			"&CallSid=CA136d09cd59a3c0ec8dbff44da5c03f31&CalledCountry=US&Called=%2B14157669926&ApiVersion=2010-04-01" +
			"&ApplicationSid=AP44efecad51364e80b133bb7c07eb8204")
	got := sms.WebhookSignature("2bd9e9638872de601313dc77410d3b23", "http://twiliotests.heroku.com/validate/voice", form)
	if err != nil || got != "oVb2kXoVy8GEfwBDjR8bk/ZZ6eA=" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestTwilioReceipts(t *testing.T) {
	const address = "https://codes.example.com/v1/receipts/twilio?send=s1&token=abc"
	r := smstest.ReporterOf(t, twilioRig().Make(t, "https://api.twilio.com"))
	signed := func(status, at, token string) sms.IncomingRequest {
		form := url.Values{"MessageStatus": {status}, "MessageSid": {"SM1"}, "To": {"+49"}}
		return sms.IncomingRequest{
			URL: address, Body: []byte(form.Encode()),
			Header: http.Header{"X-Twilio-Signature": {sms.WebhookSignature(token, at, form)}},
		}
	}
	for status, want := range map[string][]sms.Report{
		"delivered": {{Send: "s1", Delivered: true}}, "undelivered": {{Send: "s1"}},
		"failed": {{Send: "s1"}}, "sent": nil, "queued": nil,
	} {
		if got, _, err := r.ParseReports(signed(status, address, smstest.Private), "s1"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", status, got, err)
		}
	}
	const ported = "https://codes.example.com:1234/v1/receipts/twilio?send=s1&token=abc"
	for at, signedAt := range map[string]string{
		ported:  address, // signed without its port
		address: "https://codes.example.com:443/v1/receipts/twilio?send=s1&token=abc",
	} {
		in := signed("delivered", signedAt, smstest.Private)
		in.URL = at
		if got, _, err := r.ParseReports(in, "s1"); err != nil || len(got) != 1 {
			t.Errorf("at %s, signed as %s: %v, %v", at, signedAt, got, err)
		}
	}
	replayed := signed("delivered", address, smstest.Private)
	replayed.URL = "https://codes.example.com/v1/receipts/twilio?send=s2&token=abc"
	changed := signed("undelivered", address, smstest.Private)
	changed.Body = []byte("MessageStatus=delivered&MessageSid=SM1&To=%2B49")
	for name, in := range map[string]sms.IncomingRequest{
		"another token":   signed("delivered", address, "x"),
		"another address": signed("delivered", "http"+address[5:], smstest.Private),
		"another port":    signed("delivered", ported, smstest.Private),
		"of another send": replayed,
		"another word":    changed, "no signature": {URL: address, Body: []byte("MessageStatus=delivered")},
	} {
		if got, _, err := r.ParseReports(in, "s1"); !errors.Is(err, sms.ErrForged) || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
