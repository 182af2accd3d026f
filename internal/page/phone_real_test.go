package page_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/page/pagetest"
)

// carrier is one that takes text messages over HTTP, but for the numbers that it has another answer for.
type carrier struct {
	*httptest.Server
	answers map[string]string // by number; all others are taken
	mu      sync.Mutex
	sent    []url.Values
}

func newCarrier(t *testing.T) *carrier {
	t.Helper()
	c := &carrier{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		form, bad := url.ParseQuery(string(body))
		if err != nil || bad != nil {
			t.Errorf("%v, %v", err, bad)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		answer, other := c.answers[form.Get("to")]
		if !other {
			answer, c.sent = "ok", append(c.sent, form)
		}
		_, _ = fmt.Fprintf(w, `{"code":%q}`, answer)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *carrier) texts() []url.Values {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]url.Values(nil), c.sent...)
}

// await waits until so many messages were taken.
func (c *carrier) await(t *testing.T, n int) []url.Values {
	t.Helper()
	if !await(func() bool { return len(c.texts()) >= n }) {
		t.Fatalf("%d text messages", len(c.texts()))
	}
	texts := c.texts()
	if len(texts) > n {
		t.Errorf("%d text messages", len(texts))
	}
	return texts
}

// configured writes a file of the configuration.
func configured(t *testing.T, yaml string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sendcode.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return "SENDCODE_CONFIG=" + file
}

// carried is the part of a configuration that sends through a carrier.
func carried(at string) string {
	return fmt.Sprintf(`sms:
  countries: [DE, US]
  carriers: [{name: fake, type: http, url: %q, format: form, body: "to={to}&text={text}",
    answer: {code: $.code, accepted: [ok], codes: {bad: rejected, many: limit 2h}}}]
`, at+"/send")
}

// settled looks at the page until what was asked for is not on its way any more.
func settled(t *testing.T, v *pagetest.Visitor) (page string) {
	t.Helper()
	if !await(func() bool {
		var err error
		if page, err = v.Get(""); err != nil {
			t.Fatal(err)
		}
		return !strings.Contains(page, " data-poll")
	}) {
		t.Fatalf("still on its way: %s", text(page))
	}
	return page
}

var waits = regexp.MustCompile(`Next code in (?:1 h|(\d+) min)`)

// Three an hour, by the page over the program itself: the fourth is refused with the right wait, the other channel has its
// own places and its own wait, and going back shows the first one's again.
func TestThreeAnHourOnEachChannel(t *testing.T) {
	c := newCarrier(t)
	base, _ := service(t, filepath.Join(t.TempDir(), "data"), configured(t, carried(c.URL)+
		"policies: {default: [{name: hour, scope: recipient, limit: 3, window: 1h}]}\n"))
	v := pagetest.NewVisitor(base + "/")
	do := func(page string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	leftOf := func(page string) {
		t.Helper()
		found := waits.FindStringSubmatch(text(page))
		if found == nil {
			t.Fatalf("no wait: %s", text(page))
		}
		if minutes, _ := strconv.Atoi(found[1]); found[1] != "" && minutes < 58 {
			t.Errorf("%d min are told", minutes)
		}
	}
	page := do(v.Post("", "send", "channel", "sms", "country", "DE", "phone", "0151 23456789"))
	shows(t, page, "code", "+49 151•••789", "2 left")
	for range 2 {
		page = do(v.Post("", "again"))
	}
	shows(t, page, "code", "per hour 3 of 3 used")
	leftOf(page)
	page = do(v.Post("", "again"))
	shows(t, page, "enough", "Hourly limit reached", "3 codes were sent to +49 151•••789", "Send by email instead")
	leftOf(page)

	page = do(v.Post("?view=instead", "send", "channel", "email", "to", pagetest.Address))
	shows(t, page, "code", "a•••@example.com", "per hour 1 of 3 used", "2 left")
	for range 2 {
		page = do(v.Post("", "again"))
	}
	shows(t, page, "code", "per hour 3 of 3 used")
	leftOf(page)
	page = settled(t, v)
	shows(t, page, "code", "Check your mail", "Send a text message instead +49 151•••789 · next code")
	page = do(v.Post("", "other"))
	shows(t, page, "enough", "3 codes were sent to +49 151•••789", "Send by email instead a•••@example.com")
	leftOf(page)

	other := pagetest.NewVisitor(base + "/") // another browser has the same recipient's places
	page = do(other.Post("", "send", "channel", "sms", "phone", "+49 151 23456789"))
	shows(t, page, "enough", "3 codes were sent to +49 151•••789")
	leftOf(page)
	texts := c.await(t, 3)
	for _, m := range texts {
		if m.Get("to") != "+4915123456789" || m.Get("text") != texts[0].Get("text") {
			t.Errorf("%v", m)
		}
	}
	shows(t, do(v.Post("?view=code", "check", "code", sixDigits.FindString(texts[2].Get("text")))), "approved", "+49 151•••789 is confirmed")
}

// A number that the carrier refuses, or has had enough of, costs nothing and leads to the other channel.
func TestANumberThatTheCarrierRefuses(t *testing.T) {
	c := newCarrier(t)
	c.answers = map[string]string{"+4915123456789": "bad", "+4915123456788": "many"}
	base, _ := service(t, filepath.Join(t.TempDir(), "data"), configured(t, carried(c.URL)+"page: {app: default, channels: [sms, email], country: DE}\n"))
	for typed, want := range map[string]struct {
		kind  string
		words []string
	}{
		"0151 23456789": {"failed", []string{"did not reach +49 151•••789", "didn't count. You can try again now"}},
		"0151 23456788": {"enough", []string{"Your mobile network lets no more codes through for now", "+49 151•••788 has had them", "Next code in 2 h", "mobile network"}},
	} {
		v := pagetest.NewVisitor(base + "/")
		v.Lang = "fr"
		page, err := v.Get("")
		if err != nil || !strings.Contains(page, `value="sms" checked`) || !strings.Contains(page, `value="DE" selected`) {
			t.Fatalf("the page does not offer what it is told to: %v, %s", err, page)
		}
		if _, err = v.Post("", "send", "channel", "sms", "country", "DE", "phone", typed); err != nil {
			t.Fatal(err)
		}
		page = settled(t, v)
		shows(t, page, want.kind, append(want.words, "Send by email instead")...)
		silent(t, page, "The last code still works") // there is none
		page, err = v.Post("?view=instead", "send", "channel", "email", "to", typed[len(typed)-1:]+pagetest.Address)
		if err != nil {
			t.Fatal(err)
		}
		shows(t, page, "code", typed[len(typed)-1:]+"•••@example.com")
	}
	if n := len(c.texts()); n != 0 {
		t.Errorf("%d text messages", n)
	}
}

// theRealPhone goes the whole way over the program as it starts with nothing: a number in a country of one's choice, and the
// text message in the mailbox.
func theRealPhone(t *testing.T, browser context.Context) {
	base, _ := service(t, filepath.Join(t.TempDir(), "data"))
	b := open(t, browser, running(t), pagetest.Look{Lang: "en-US"})
	b.do(chromedp.Navigate(base + "/"))
	b.card("ask", "Text message")
	b.click("#by-sms")
	b.card("ask", "As in (201) 555-0123")
	b.focus("phone")
	b.keys("2015550123")
	b.until(`document.querySelector('#phone').value === '(201) 555-0123'`)
	from := time.Now()
	b.keys(kb.Enter)
	b.card("code", "Check your phone", "Code sent to +1 201•••123", "Send again in", "4 left", "9 left")
	b.counts(from)
	code := codeIn(t, base)
	b.focus("code")
	b.keys(code)
	b.card("approved", "+1 201•••123 is confirmed")
	b.nothingKept()
}
