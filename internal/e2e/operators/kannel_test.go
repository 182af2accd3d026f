package operators

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

func textFor(to, purpose string) string {
	return fmt.Sprintf(`{"channel":"sms","to":%q,"locale":"en","purpose":%q}`, to, purpose)
}

// burstOfTexts asks 30 times at once, over all replicas.
func burstOfTexts(s *apptest.Stack, to, purpose string) (admitted int) {
	s.Helper()
	var in atomic.Int32
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			a := apptest.UnlessBusy(func() apptest.Answer {
				return s.Do(i%len(s.Replicas), http.MethodPost, "/v1/verifications", textFor(to, purpose))
			})
			switch a.StatusCode {
			case http.StatusAccepted:
				in.Add(1)
			case http.StatusTooManyRequests:
			default:
				s.Errorf("%d %s", a.StatusCode, a.Raw)
			}
		})
	}
	wg.Wait()
	return int(in.Load())
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

// Three in a clock hour, and three in a sliding hour: exactly three arrive, and the fourth is told the right wait.
func TestThreeAnHourThroughKannel(t *testing.T) {
	t.Parallel()
	s, k := overKannel(t, `policies:
  clock: [{name: clock, scope: recipient, limit: 3, per: hour}]
  sliding: [{name: hour, scope: recipient, limit: 3, window: 1h}]
purposes:
  clock: {policy: clock}
  sliding: {policy: sliding}`)
	s.Start(2)
	t.Run("clock", func(t *testing.T) {
		for try := 0; ; try++ {
			number := fmt.Sprintf("+49151234567%02d", try)
			before := time.Now().UTC()
			n := burstOfTexts(s, number, "clock")
			fourth := s.Do(1, http.MethodPost, "/v1/verifications", textFor(number, "clock"))
			after := time.Now().UTC()
			if before.Hour() != after.Hour() && try < 3 {
				continue // the hour ended meanwhile; both hours have three
			}
			end := before.Truncate(time.Hour).Add(time.Hour)
			most, least := end.Sub(before).Seconds()+2, end.Sub(after).Seconds()-1
			if n != 3 || fourth.StatusCode != http.StatusTooManyRequests || fourth.BlockedBy != "clock" || float64(fourth.RetryAfter) > most || float64(fourth.RetryAfter) < least {
				t.Errorf("%d let in; then %d by %q, %d s, want %.0f to %.0f", n, fourth.StatusCode, fourth.BlockedBy, fourth.RetryAfter, least, most)
			}
			s.Await("three messages", func() bool { return len(messagesTo(k, number)) >= 3 })
			if got := len(messagesTo(k, number)); got != 3 {
				t.Errorf("%d messages arrived", got)
			}
			return
		}
	})
	t.Run("sliding", func(t *testing.T) {
		const number = "+4915123456800"
		before := time.Now()
		n := burstOfTexts(s, number, "sliding")
		fourth := s.Do(0, http.MethodPost, "/v1/verifications", textFor(number, "sliding"))
		spent := time.Since(before).Seconds()
		if n != 3 || fourth.StatusCode != http.StatusTooManyRequests || fourth.BlockedBy != "hour" || fourth.RetryAfter > 3600 || float64(fourth.RetryAfter) < 3600-spent-1 {
			t.Errorf("%d let in; then %d by %q, %d s", n, fourth.StatusCode, fourth.BlockedBy, fourth.RetryAfter)
		}
		s.Flush()
		if n := burstOfTexts(s, number, "sliding"); n != 0 {
			t.Errorf("%d more after a flush", n)
		}
		s.Await("three messages", func() bool { return len(messagesTo(k, number)) >= 3 })
		if got := len(messagesTo(k, number)); got != 3 {
			t.Errorf("%d messages arrived", got)
		}
	})
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
