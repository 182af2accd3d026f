package sms

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
)

// The example in the vendor's own libraries (twilio-ruby, spec/security/request_validator_spec.rb).
func TestTwilioSignatureAsPublished(t *testing.T) {
	form := url.Values{}
	for name, value := range map[string]string{
		"ToState": "California", "CalledState": "California", "Direction": "inbound", "FromState": "CA", "AccountSid": "ACba8bc05eacf94afdae398e642c9cc32d",
		"Caller": "+14153595711", "CallerZip": "94108", "CallerCountry": "US", "From": "+14153595711", "FromCity": "SAN FRANCISCO", "CallerCity": "SAN FRANCISCO",
		"To": "+14157669926", "FromZip": "94108", "FromCountry": "US", "ToCity": "", "CallStatus": "ringing", "CalledCity": "", "CallerState": "CA", "CalledZip": "",
		"ToZip": "", "ToCountry": "US", "CallSid": "CA136d09cd59a3c0ec8dbff44da5c03f31", "CalledCountry": "US", "Called": "+14157669926", "ApiVersion": "2010-04-01",
		"ApplicationSid": "AP44efecad51364e80b133bb7c07eb8204",
	} {
		form.Set(name, value)
	}
	if got := signTwilio("2bd9e9638872de601313dc77410d3b23", "http://twiliotests.heroku.com/validate/voice", form); got != "oVb2kXoVy8GEfwBDjR8bk/ZZ6eA=" {
		t.Errorf("%s", got)
	}
}

func reporter(t *testing.T, c Carrier) Reporter {
	t.Helper()
	r, ok := NewCarriers([]Route{{Carrier: c}}, Options{}).Reporter(c.Name())
	if !ok {
		t.Fatal("it tells nothing")
	}
	return r
}

func TestTwilioReceipts(t *testing.T) {
	const address = "https://codes.example.com/v1/receipts/twilio?send=s1&token=abc"
	r := reporter(t, twilioRig().make(t, "https://api.twilio.com"))
	signed := func(status, at, token string) Incoming {
		form := url.Values{"MessageStatus": {status}, "MessageSid": {"SM1"}, "To": {"+49"}}
		return Incoming{URL: address, Body: []byte(form.Encode()), Header: http.Header{"X-Twilio-Signature": {signTwilio(token, at, form)}}}
	}
	for status, want := range map[string][]Report{"delivered": {{Send: "s1", Delivered: true}}, "undelivered": {{Send: "s1"}}, "failed": {{Send: "s1"}}, "sent": nil, "queued": nil} {
		if got, _, err := r.Reports(signed(status, address, private), "s1"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", status, got, err)
		}
	}
	replayed := signed("delivered", address, private)
	replayed.URL = "https://codes.example.com/v1/receipts/twilio?send=s2&token=abc"
	changed := signed("undelivered", address, private)
	changed.Body = []byte("MessageStatus=delivered&MessageSid=SM1&To=%2B49")
	for name, in := range map[string]Incoming{
		"another token": signed("delivered", address, "x"), "another address": signed("delivered", "http"+address[5:], private), "of another send": replayed,
		"another word": changed, "no signature": {URL: address, Body: []byte("MessageStatus=delivered")},
	} {
		if got, _, err := r.Reports(in, "s1"); !errors.Is(err, ErrForged) || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestDescribedReceipts(t *testing.T) {
	for _, c := range []struct {
		words ReceiptWords
		in    Incoming
		want  string
	}{
		{ReceiptWords{"status", []string{"1"}, []string{"2", "16"}}, Incoming{URL: "https://x/?send=s&status=1"}, "[{s true }]"},
		{ReceiptWords{"status", []string{"1"}, []string{"2", "16"}}, Incoming{URL: "https://x/?send=s&status=16"}, "[{s false }]"},
		{ReceiptWords{"status", []string{"1"}, []string{"2", "16"}}, Incoming{URL: "https://x/?send=s&status=8"}, "[]"},
		{ReceiptWords{"status", []string{"1"}, []string{"2", "16"}}, Incoming{URL: "https://x/?send=s", Body: []byte("a=b&status=1")}, "[{s true }]"},
		{ReceiptWords{"$.dlr.state", []string{"DELIVRD"}, nil}, Incoming{URL: "https://x/", Body: []byte(`{"dlr":{"state":"DELIVRD"}}`)}, "[{s true }]"},
		{ReceiptWords{"status", []string{"1"}, nil}, Incoming{URL: "https://x/?send=s"}, ""},
		{ReceiptWords{"$.dlr.state", []string{"1"}, nil}, Incoming{URL: "https://x/", Body: []byte("no")}, ""},
	} {
		g := genericRig().description("https://sms.example.com")
		g.Receipt = c.words
		got, reply, err := reporter(t, must(t)(NewGeneric(g))).Reports(c.in, "s")
		if c.want == "" && err == nil || c.want != "" && (err != nil || fmt.Sprint(got) != c.want || reply != "") {
			t.Errorf("%+v: %v, %v", c.words, got, err)
		}
	}
	for _, words := range []ReceiptWords{{Status: "s"}, {Delivered: []string{"1"}}, {"$.", []string{"1"}, nil}, {"s", []string{"1"}, []string{"1"}}} {
		g := genericRig().description("https://sms.example.com")
		if g.Receipt = words; g.Check()["receipt"] == nil {
			t.Errorf("%+v is taken", words)
		}
	}
}

func TestAliyunReceipts(t *testing.T) {
	r := reporter(t, aliyunRig().make(t, "https://dysmsapi.aliyuncs.com"))
	got, reply, err := r.Reports(Incoming{Body: []byte(`[{"phone_number":"13812345678","success":true,"err_code":"DELIVERED","out_id":"s1"},
		{"success":false,"out_id":"s2"},{"out_id":"s3"},{"success":true}]`)}, "")
	if err != nil || fmt.Sprint(got) != "[{s1 true } {s2 false }]" || reply != `{"code":0,"msg":"OK"}` {
		t.Errorf("%v, %q, %v", got, reply, err)
	}
	if _, _, err := r.Reports(Incoming{Body: []byte("{}")}, ""); !errors.Is(err, ErrReport) {
		t.Errorf("%v", err)
	}
}

func TestWhoTellsNothing(t *testing.T) {
	all := NewCarriers([]Route{{Carrier: &scripted{name: "mute"}}}, Options{})
	for _, name := range []string{"mute", "nobody"} {
		if _, ok := all.Reporter(name); ok {
			t.Error(name)
		}
	}
}
