package sms

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sendcode/internal/delivery"
)

const twilioAccount = "AC00000000000000000000000000000001"

func twilioRig() rig {
	failure := func(status int, code string) said {
		return said{status, `{"code": ` + code + `, "message": "` + private + ` +8613812345678", "more_info": "https://www.twilio.com/docs/errors/x", "status": ` + fmt.Sprint(status) + `}`}
	}
	return rig{
		name: "twilio", id: "SM1f0e8ae6ade43cb3c0ce4525424e404f",
		taken: said{201, `{"sid": "SM1f0e8ae6ade43cb3c0ce4525424e404f", "status": "queued", "error_code": null, "body": "739154"}`},
		make: func(t *testing.T, endpoint string) Carrier {
			return must(t)(NewTwilio(Twilio{Name: "twilio", Account: twilioAccount, Token: private, Endpoint: endpoint}))
		},
		check: func(r *http.Request, body string) error {
			user, password, _ := r.BasicAuth()
			if r.Method != "POST" || r.URL.Path != "/2010-04-01/Accounts/"+twilioAccount+"/Messages.json" || user != twilioAccount || password != private {
				return fmt.Errorf("%s %s as %q", r.Method, r.URL.Path, user)
			}
			got, err := url.ParseQuery(body)
			m := sample()
			want := url.Values{"To": {m.To}, "From": {m.Sender}, "Body": {m.Text}, "StatusCallback": {m.Callback}, "ValidityPeriod": {"540"}}
			if err != nil || got.Encode() != want.Encode() {
				return fmt.Errorf("form %v, %v", got, err)
			}
			return nil
		},
		cases: map[string]outcome{
			"invalid number":      {failure(400, "21211"), delivery.Rejected, "", 0},
			"landline":            {failure(400, "21614"), delivery.Rejected, "", 0},
			"stopped":             {failure(400, "21610"), delivery.Rejected, ReasonOptOut, 0},
			"region":              {failure(400, "21408"), delivery.Temporary, "", 0},
			"sender":              {failure(400, "21606"), delivery.Temporary, "", 0},
			"queue":               {failure(429, "20429"), delivery.Temporary, "", 0},
			"a new code":          {failure(400, "21999"), delivery.Rejected, "", 0},
			"created, and failed": {said{201, `{"sid": "SM1", "status": "failed", "error_code": 39999}`}, delivery.Rejected, "", 0},
		},
	}
}

func TestTwilioWithServiceAndKey(t *testing.T) {
	const service, key = "MG00000000000000000000000000000002", "SK00000000000000000000000000000003"
	f := newFake(t, rig{check: func(r *http.Request, body string) error {
		got, _ := url.ParseQuery(body)
		user, _, _ := r.BasicAuth()
		if got.Get("MessagingServiceSid") != service || got.Has("From") || user != key {
			return fmt.Errorf("%v as %q", got, user)
		}
		return nil
	}}, says(twilioRig().taken))
	c := must(t)(NewTwilio(Twilio{Name: "t", Account: twilioAccount, Key: key, Token: private, Service: service, Endpoint: f.URL}))
	m := sample()
	m.Sender = ""
	if _, err := c.Send(t.Context(), m); err != nil {
		t.Error(err)
	}
}

func TestAccountsAreChecked(t *testing.T) {
	approved := Approved{"default": {"en": "SMS_1"}}
	for name, c := range map[string]struct {
		key   string
		wrong map[string]error
	}{
		"twilio account":   {"account", Twilio{Account: "x", Token: private}.Check()},
		"twilio service":   {"service", Twilio{Account: twilioAccount, Service: "x", Token: private}.Check()},
		"twilio key":       {"key", Twilio{Account: twilioAccount, Key: twilioAccount, Token: private}.Check()},
		"twilio secret":    {"secret_env", Twilio{Account: twilioAccount}.Check()},
		"twilio endpoint":  {"endpoint", Twilio{Account: twilioAccount, Token: private, Endpoint: "http://x.example"}.Check()},
		"aliyun key":       {"key_id", Aliyun{KeyID: "a b", Secret: private, Sign: "s", Templates: approved}.Check()},
		"aliyun sign":      {"sign", Aliyun{KeyID: "LTAI", Secret: private, Templates: approved}.Check()},
		"aliyun templates": {"templates", Aliyun{KeyID: "LTAI", Secret: private, Sign: "s", Templates: Approved{"login": {"en": "x"}}}.Check()},
		"aliyun params":    {"params", Aliyun{KeyID: "LTAI", Secret: private, Sign: "s", Templates: approved, Params: []string{"minutes"}}.Check()},
		"aliyun secret":    {"secret_env", Aliyun{KeyID: "LTAI", Sign: "s", Templates: approved}.Check()},
		"tencent app":      {"app", Tencent{SecretID: "AKID", Secret: private, Templates: approved}.Check()},
		"tencent region":   {"region", Tencent{SecretID: "AKID", App: "1400006666", Secret: private, Templates: approved, Region: "x"}.Check()},
		"tencent params":   {"params", Tencent{SecretID: "AKID", App: "1400006666", Secret: private, Templates: approved, Params: []string{"code", "name"}}.Check()},
	} {
		if c.wrong[c.key] == nil || len(c.wrong) != 1 {
			t.Errorf("%s: %v", name, c.wrong)
		}
	}
	if _, err := NewTwilio(Twilio{Name: "t", Token: private}); err == nil || strings.Contains(err.Error(), private) {
		t.Errorf("%v", err)
	}
}
