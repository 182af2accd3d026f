package operators

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
	"sendcode/internal/parts"
)

// overKannel is the service on real parts, with text messages through a real gateway to a fake SMS centre. The carrier is
// the one of docs/sms.md.
func overKannel(t *testing.T, more string) (*apptest.Stack, *parts.KannelGateway) {
	t.Helper()
	k := parts.Kannel(t)
	var s *apptest.Stack
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { relay(s, w, r) }))
	t.Cleanup(outside.Close)
	s = configured(apptest.OnRealParts(t), more+`
sms:
  public_url: `+outside.URL+`
  countries: [DE]
  sender: Shop
  carriers:
    - name: kannel
      type: http
      secret_env: KANNEL_PASSWORD
      method: GET
      url: "`+k.URL()+`?username=sendcode&password={secret}&from={sender}&to={to}&text={text}&charset=UTF-8&coding={coding}&dlr-mask=19&dlr-url={callback}%26status=%25d"
      answer:
        match: "^(0: Accepted|3: Queued)"
        statuses: {"404": temporary}
      receipt: {status: status, delivered: ["1"], undelivered: ["2", "16"]}
`)
	s.Env["KANNEL_PASSWORD"] = parts.KannelPassword
	return s, k
}

// relay stands for the proxy at public_url, in front of the first replica.
func relay(s *apptest.Stack, w http.ResponseWriter, r *http.Request) {
	to, err := url.Parse(s.Replicas[0].Base)
	if err != nil {
		s.Errorf("%v", err)
		return
	}
	httputil.NewSingleHostReverseProxy(to).ServeHTTP(w, r)
}

// to are the messages that the SMS centre got for a number.
func messagesTo(k *parts.KannelGateway, number string) (out []string) {
	for _, line := range k.Received() {
		if strings.HasPrefix(line, "Shop "+number+" ") {
			out = append(out, line)
		}
	}
	return out
}

// The whole way: ask, read the phone, enter the code. What is denied never comes to the gateway.
func TestACodeThroughKannel(t *testing.T) {
	t.Parallel()
	s, k := overKannel(t, "")
	s.Start(1)
	denied := text(s, 0, "+12025550123")
	if denied.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", denied.StatusCode, denied.Raw)
	}
	a := text(s, 0, phoneNumber)
	if a.StatusCode != http.StatusAccepted {
		t.Fatalf("%d %s", a.StatusCode, a.Raw)
	}
	s.Await("the message", func() bool { return len(messagesTo(k, phoneNumber)) == 1 })
	got := messagesTo(k, phoneNumber)[0]
	code := codeInText.FindString(strings.TrimPrefix(got, "Shop "+phoneNumber))
	if want := "Shop " + phoneNumber + " text " + code + " is your sendcode code. It is valid for 10 min. Do not share it with anyone."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if c := s.Check(0, a.ID, code); !c.Valid {
		t.Errorf("%s", c.Raw)
	}
	s.Await("the receipt", func() bool {
		return s.Do(0, http.MethodGet, "/v1/verifications/"+a.ID, "").Send.Status == "delivered"
	})
	if n := len(k.Received()); n != 1 {
		t.Errorf("%d messages", n)
	}
	if apptest.StandsAlone(s.Printed.String(), code) {
		t.Error("the code was logged")
	}
	for _, secret := range []string{phoneNumber[1:], "a+password", parts.KannelPassword} {
		if strings.Contains(s.Printed.String(), secret) {
			t.Errorf("%q was logged", secret)
		}
	}
}
