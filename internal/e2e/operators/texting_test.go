package operators

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"sendcode/internal/app/apptest"
)

func text(s *apptest.Stack, i int, to string) apptest.Answer {
	s.Helper()
	return s.Do(i, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"sms","to":%q,"locale":"en"}`, to))
}

// Beside the dev mailbox text messages can be tried: they arrive there. What there is to choose
// from is told.
func TestTextMessagesWithoutACarrier(t *testing.T) {
	t.Parallel()
	const to, masked = "+4915123456789", "+49 151•••789"
	s := apptest.Embedded(t).Start(1)
	a := text(s, 0, to)
	s.Is("a send", a, http.StatusAccepted, a.To == masked)
	got := s.AwaitMail(to, 1)[0]
	code := regexp.MustCompile(`\b\d{6}\b`).FindString(got.Text)
	if got.Text != code+" is your sendcode code. It is valid for 10 min. Do not share it with anyone." {
		t.Errorf("%q", got.Text)
	}
	if box := string(s.Get("/mailbox").Raw); !strings.Contains(box, "Text message") ||
		!strings.Contains(box, got.Text) {
		t.Error("the page of the mailbox does not show it")
	}
	s.Approves(0, a.ID, code)
	if s.Logged(to[4:]) || apptest.StandsAlone(s.Printed.String(), code) {
		t.Error("a number or a code was logged")
	}
	if all := string(s.Get("/v1/channels").Raw); strings.Count(all, `"country"`) < 200 ||
		!strings.Contains(all, `{"country":"CN","dial_code":"+86"`) {
		t.Errorf("%s", all)
	}
	s = apptest.Embedded(t).Write("sms: {countries: [DE, \"001\"]}\nstop: [{channel: email, reason: x}]\n").Start(1)
	const german = `{"channels":[{"channel":"sms","countries":[{"country":"DE","dial_code":"+49","example":"01512 3456789"}]}]}`
	if got := strings.TrimSpace(string(s.Get("/v1/channels").Raw)); got != german {
		t.Errorf("of one country, while mail is paused: %s", got)
	}
	s = apptest.Embedded(t).Write("sms: {countries: [NO, DE]}\n").Start(1)
	if page := string(s.Get("/").Raw); !strings.Contains(page, `value="NO" selected`) {
		t.Errorf("the page does not offer the first country:\n%s", page)
	}
}

// Receipts are taken from a caller that has the address of that very send, and never bring a send
// back.
func TestReceipts(t *testing.T) {
	t.Parallel()
	c := apptest.NewCarrier(t)
	s := apptest.Embedded(t).Write(`sms:
  countries: [DE]
  public_url: https://codes.example.com
  carriers: [{name: rest, type: http, url: "` + c.URL + `/", body: "to={to}&text={text}&cb={callback}", receipt: st, delivered: [ok], undelivered: [lost]}]
`).Start(1)
	var ids, callbacks []string
	for n := range 2 {
		a := text(s, 0, fmt.Sprintf("+4915123456%03d", n))
		s.AwaitState(a.ID, "sent")
		callback := c.Asked()[n].Get("cb")
		ids, callbacks = append(ids, a.ID), append(callbacks, strings.TrimPrefix(callback, "https://codes.example.com"))
	}
	first, token := callbacks[0], func(path string) string { return path[strings.Index(path, "&token="):] }
	for _, c := range []struct {
		path   string
		status int
		is     string // the first send, afterwards
	}{
		{strings.Replace(first, token(first), token(callbacks[1]), 1) + "&st=ok", 404, "sent"},
		{strings.Replace(first, token(first), "", 1) + "&st=ok", 404, "sent"},
		{strings.Replace(first, "/rest?", "/kannel?", 1) + "&st=ok", 404, "sent"},
		{"/v1/receipts/rest?st=ok" + token(first), 404, "sent"},
		{first + "&st=queued", 204, "sent"}, {first, 400, "sent"}, {first + "&st=lost", 204, "undelivered"},
	} {
		if got, now := s.Get(c.path), s.Look(ids[0]); got.StatusCode != c.status || now.Send.Status != c.is {
			t.Errorf("%.40s: %d, want %d; then %s, want %s", c.path, got.StatusCode, c.status, now.Send.Status, c.is)
		}
	}
	for size, status := range map[int]int{100 << 10: 204, 300 << 10: 413} {
		a := s.Post(first+"&st=queued", `{"x":"`+strings.Repeat("x", size)+`"}`)
		s.Is(fmt.Sprint("a list of ", size), a, status, status == 204 ||
			a.Type == "https://codes.example.com/problems/too-large")
	}
	s.Is("an undelivered message was refunded", text(s, 0, "+4915123456000"), http.StatusTooManyRequests)
	for _, status := range []string{"ok", "ok", "lost"} {
		s.Get(first + "&st=" + status)
	}
	if one, two := s.Look(ids[0]).Send.Status, s.Look(ids[1]).Send.Status; one != "delivered" || two != "sent" {
		t.Errorf("%s, and the other %s", one, two)
	}
	if s.Logged(token(first)[7:]) {
		t.Error("the token was logged")
	}
}

// Forty requests at once over two replicas, with room for three: three leave the machine, the
// others end with the reason and cost nothing, also their recipients.
func TestParallelSendsNeverPassTheCap(t *testing.T) {
	t.Parallel()
	c := apptest.NewCarrier(t)
	s := apptest.OnRealParts(t).Write(`sms:
  countries: [DE]
  carriers: [{name: dear, type: http, url: "` + c.URL + `/", body: "to={to}&text={text}", prices: {default: 0.075}}]
  spend: [{scope: global, per: day, limit: 0.25}, {scope: app, per: month, limit: 100}]
`).Start(2)
	number := func(n int) string { return fmt.Sprintf("+49151234567%02d", n) }
	ids := make([]string, 40)
	var all sync.WaitGroup
	for n := range ids {
		all.Go(func() {
			a := text(s, n%2, number(n))
			if ids[n] = a.ID; a.StatusCode != http.StatusAccepted {
				t.Errorf("%d %s", a.StatusCode, a.Raw)
			}
		})
	}
	all.Wait()
	sent, capped, stopped := 0, 0, 0
	s.Await("every outcome", func() bool {
		sent, capped = 0, 0
		for n, id := range ids {
			switch send := s.Look(id).Send; {
			case send.Status == "sent":
				sent++
			case send.Status == "failed" && send.Reason == "spend_cap":
				capped, stopped = capped+1, n
			}
		}
		return sent+capped == len(ids)
	})
	again := text(s, 0, number(stopped)) // is stopped again, and nothing leaves
	s.Await("its outcome", func() bool { return s.Look(again.ID).Send.Reason == "spend_cap" })
	if n := len(c.Asked()); sent != 3 || capped != 37 || n != 3 || again.StatusCode != http.StatusAccepted {
		t.Errorf("%d sent, %d stopped, the carrier was asked %d times; the next request: %d", sent, capped, n,
			again.StatusCode)
	}
	metrics := string(s.Get("/metrics").Raw) + string(s.Do(1, http.MethodGet, "/metrics", "").Raw)
	for _, want := range []string{`sendcode_sms_carrier_up{carrier="dear",order="1"} 1`,
		`sendcode_spend_refused_total{cap="global_day"}`} {
		if !strings.Contains(metrics, want) || !s.Logged("spend cap reached") {
			t.Errorf("there is no alarm, or no %s", want)
		}
	}
}
