package page_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/store"
)

const (
	number       = "0170 1112223" // of Germany, and no example of anything
	maskedNumber = "+49 170•••223"
)

// texting is a world whose text messages go to some countries, and which accepts each message at once.
func texting(t *testing.T, countries ...string) *pagetest.World {
	t.Helper()
	w := world(t)
	w.Codes.Immediately = store.Sent
	w.Codes.SetCountries(countries...)
	return w
}

// mailedBefore is a world with text messages to Germany, whose visitor was mailed a code a minute
// ago.
func mailedBefore(t *testing.T) *pagetest.World {
	t.Helper()
	w := mailed(t)
	w.Codes.SetCountries("DE")
	w.Advance(61 * time.Second)
	return w
}

// texted asks for a code by text message, in Germany.
func texted(t *testing.T, w *pagetest.World, query, typed string) string {
	t.Helper()
	return post(t, w, query, "send", "channel", "sms", "country", "DE", "phone", typed)
}

func TestAPersonWithoutScriptsGetsInByPhone(t *testing.T) {
	w := world(t)
	w.Codes.SetCountries("DE", "US")
	shows(t, get(t, w, ""), "ask", "Email", "Text message", "Germany (\u200e+49)", "United States (\u200e+1)")
	shows(t, texted(t, w, "", "(0170) 111-22 23"), "code", "On its way", "Sending a code to "+maskedNumber, "Send again in 1:00")
	w.Codes.Settle(store.Sent)
	w.Advance(61 * time.Second)
	shows(t, get(t, w, ""), "code", "Check your phone", "left us 1 min ago", "A new text message will contain the same code.")
	shows(t, post(t, w, "", "again"), "code", maskedNumber)
	w.Codes.Settle(store.Sent)
	shows(t, get(t, w, ""), "code", "Code sent again to "+maskedNumber)
	shows(t, post(t, w, "", "check", "code", pagetest.Code), "approved", maskedNumber+" is confirmed")
	for i, a := range w.Codes.Asks() {
		if want := []string{"", "verification-1"}[i]; a.Channel != "sms" || a.To != "+491701112223" ||
			a.Resend != want {
			t.Errorf("asked for %+v", a)
		}
	}
}

// What is offered follows what there is, what is paused and what the page is told to offer.
func TestThePageOffersWhatThereIs(t *testing.T) {
	fields := regexp.MustCompile(`name="(?:to|phone)"|type="radio"|<select`)
	for name, c := range map[string]struct {
		countries []string
		paused    recipient.Channel
		want      string
	}{
		"mail alone":             {nil, "", `name="to"`},
		"both":                   {[]string{"DE", "US"}, "", `type="radio" type="radio" name="to" <select name="phone"`},
		"one country":            {[]string{"DE"}, "", `type="radio" type="radio" name="to" name="phone"`},
		"text messages paused":   {[]string{"DE"}, recipient.SMS, `name="to"`},
		"mail paused":            {[]string{"DE", "US"}, recipient.Email, `<select name="phone"`},
		"all there is is paused": {nil, recipient.Email, `name="to"`},
	} {
		w := world(t)
		w.Codes.SetCountries(c.countries...)
		w.Codes.Pause(c.paused)
		if got := strings.Join(fields.FindAllString(get(t, w, ""), -1), " "); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	w := texting(t, "DE", "US")
	w.Codes.Pause(recipient.Email)
	page := get(t, w, "")
	shows(t, page, "ask", "a 6-digit code to your phone")
	// no choice was there to be posted
	shows(t, post(t, w, "", "send", "country", "DE", "phone", number), "code", maskedNumber)
}

// What is wrong is said at the field, which keeps what was typed; the country stays chosen.
func TestWhatIsWrongWithANumber(t *testing.T) {
	for typed, words := range map[string]string{
		"":                 "Enter your phone number.",
		"+49 30":           "too few digits",
		"0151x2345678":     "Check this character: U+0078",
		"+34 612 34 56 78": "We don't send codes to numbers in this country.",
		// Jamaica, whose code is that of the United States
		"+1 876 555 0123": "We don't send codes to numbers in this country.",
	} {
		w := texting(t, "DE", "US")
		page := texted(t, w, "", typed)
		shows(t, page, "ask", words)
		field := regexp.MustCompile(`<input id="phone"[^>]*>`).FindString(page)
		contains(t, field, `type="tel"`, `autocomplete="tel"`, `aria-invalid="true"`,
			`aria-describedby="phone-error phone-hint"`, ` data-focus`,
			`value="`+strings.ReplaceAll(typed, "+", "&#43;")+`"`)
		contains(t, page, `<p id="phone-error" class="error">`, `value="DE" selected`, `value="sms" checked`)
		is(t, w.Codes.Sends(), 0)
	}
}

// A landline is asked back about, once; another one anew.
func TestALandlineIsAskedBackAbout(t *testing.T) {
	w := texting(t, "DE")
	shows(t, texted(t, w, "", "030 23125000"), "ask", "This looks like a landline")
	shows(t, texted(t, w, "?view=change", "030 23125001"), "ask", "This looks like a landline")
	if len(w.Codes.Asks()) != 0 {
		t.Fatal("it was sent to")
	}
	shows(t, texted(t, w, "?view=change", "030 23125001"), "code", "+49 302•••001")
}

// The country of a number is what the person chose, else what likelyRegions says
// (TestWhereAReaderMayBe), else what their language suggests.
func TestTheCountryThatIsChosen(t *testing.T) {
	w := texting(t, "AT", "CN", "DE", "GB")
	for language, want := range map[string]string{"en-GB,en;q=0.9": "GB", "zh": "CN", "": "AT"} {
		w.Lang = language
		contains(t, get(t, w, ""), `value="`+want+`" selected`)
	}
	w.Lang = "en"
	contains(t, post(t, w, "", "send", "channel", "sms", "country", "DE", "phone", "1"), `value="DE" selected`)
	page := post(t, w, "?view=change", "send", "channel", "sms", "country", "XX", "phone", "0151 23456789")
	shows(t, page, "ask", "Begin the number with + and the country code")
}

// A number is in no address, no log and no cookie that can be read; the page shows it masked once
// it was sent to.
func TestANumberIsKeptFromSight(t *testing.T) {
	w := texting(t, "DE")
	var answer *http.Response
	for _, c := range [][2]string{{"0170 ana", "/?view=change"}, {number, "/?view=sent"}} {
		answer = raw(t, w, http.MethodPost, "", formOf(t, w, "", "send", "channel", "sms", "country", "DE", "phone", c[0]), nil)
		is(t, answer.Header.Get("Location"), c[1])
	}
	w.Keep(answer.Cookies())
	page := get(t, w, "")
	shows(t, page, "code", maskedNumber)
	silent(t, page+w.Log.String()+fmt.Sprint(answer.Header), "1112223", "112223", "170 111")
}

// Text messages that are taken out of the configuration lead into no dead end.
func TestTextMessagesThatAreGone(t *testing.T) {
	w := texting(t, "DE")
	texted(t, w, "", number)
	w.Advance(61 * time.Second)
	w.Codes.SetCountries()
	shows(t, post(t, w, "", "again"), "ask", "Email address", "This page was out of date.")
}
