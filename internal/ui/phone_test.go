package ui_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/audit"
	"sendcode/internal/recipient"
	"sendcode/internal/ui/uitest"
)

const (
	number       = "0170 1112223" // of Germany, and no example of anything
	maskedNumber = "+49 170•••223"
)

// texting is a world whose text messages go to some countries.
func texting(t *testing.T, countries ...string) *uitest.World {
	t.Helper()
	w := world(t)
	w.Codes.Text(countries...)
	return w
}

// texted asks for a code by text message, in Germany.
func texted(t *testing.T, w *uitest.World, query, typed string, more ...string) string {
	t.Helper()
	return post(t, w, query, "send", append([]string{"channel", "sms", "country", "DE", "phone", typed}, more...)...)
}

func TestAPersonWithoutScriptsGetsInByPhone(t *testing.T) {
	w := texting(t, "DE", "US")
	shows(t, get(t, w, ""), "ask", "Email", "Text message", "Germany (+49)", "United States (+1)")
	shows(t, texted(t, w, "", "(0170) 111-22 23"), "code", "On its way", "Sending a code to "+maskedNumber, "Send again in 1:00")
	w.Codes.Settle(audit.Sent)
	w.Advance(20 * time.Second)
	shows(t, get(t, w, ""), "code", "Check your phone", "Send again in 0:40", "4 left", "accepted it 20 s ago", "A new text message brings the same code.")
	w.Advance(41 * time.Second)
	shows(t, post(t, w, "", "again"), "code", maskedNumber)
	w.Codes.Settle(audit.Sent)
	shows(t, get(t, w, ""), "code", "Code sent again to "+maskedNumber)
	shows(t, post(t, w, "", "check", "code", uitest.Code), "approved", maskedNumber+" is yours")
	for i, a := range w.Codes.Asks() {
		if want := []string{"", "verification-1"}[i]; a.Channel != "sms" || a.To != "+491701112223" || a.Resend != want {
			t.Errorf("asked for %+v", a)
		}
	}
}

// What is offered follows what there is, what is paused and what the page is told to offer.
func TestThePageOffersWhatThereIs(t *testing.T) {
	fields := func(page string) string {
		var out []string
		for _, field := range []string{`name="to"`, `name="phone"`, `type="radio"`, `<select`} {
			if strings.Contains(page, field) {
				out = append(out, field)
			}
		}
		return strings.Join(out, " ")
	}
	for name, c := range map[string]struct {
		countries []string
		paused    recipient.Channel
		want      string
	}{
		"mail alone":             {nil, "", `name="to"`},
		"both":                   {[]string{"DE", "US"}, "", `name="to" name="phone" type="radio" <select`},
		"one country":            {[]string{"DE"}, "", `name="to" name="phone" type="radio"`},
		"no country of a code":   {[]string{"001"}, "", `name="to" name="phone" type="radio"`},
		"text messages paused":   {[]string{"DE"}, recipient.SMS, `name="to"`},
		"mail paused":            {[]string{"DE", "US"}, recipient.Email, `name="phone" <select`},
		"all there is is paused": {nil, recipient.Email, `name="to"`},
	} {
		w := world(t)
		w.Codes.Text(c.countries...)
		w.Codes.Pause(c.paused)
		if got := fields(get(t, w, "")); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	w := texting(t, "DE", "US")
	w.Codes.Pause(recipient.Email)
	page := get(t, w, "")
	shows(t, page, "ask", "a 6-digit code to your phone")
	shows(t, post(t, w, "", "send", "country", "DE", "phone", number), "code", maskedNumber) // no choice was there to be posted
}

// Nothing that speaks of mails is on a page where there are only text messages, in whichever state.
func TestNoPageOfTextMessagesSpeaksOfMails(t *testing.T) {
	mail := map[string]*regexp.Regexp{"en": regexp.MustCompile(`(?i)mail|inbox|spam|address|@`), "zh": regexp.MustCompile(`邮|信箱|来信|地址|封|@`)}
	seen := 0
	for _, s := range uitest.States() {
		if !strings.HasPrefix(s.Name, "phone-") || strings.Contains(s.Name, "mail") {
			continue
		}
		seen++
		for lang, words := range mail {
			w, err := s.New(lang)
			if err != nil {
				t.Fatal(err)
			}
			w.Codes.Pause(recipient.Email)
			said := text(get(t, w, s.Query)) + attributes(get(t, w, s.Query))
			if found := words.FindString(said); found != "" {
				t.Errorf("%s, %s: says %q: %s", s.Name, lang, found, said)
			}
			w.Close()
		}
	}
	if seen < 18 {
		t.Errorf("only %d states", seen)
	}
}

var spoken = regexp.MustCompile(`(?:data-say|data-title|aria-label|data-text|data-short|data-long|placeholder)="([^"]*)"`)

// attributes are those that people hear or see at some time.
func attributes(page string) string {
	var out []string
	for _, found := range spoken.FindAllStringSubmatch(page, -1) {
		out = append(out, found[1])
	}
	return strings.Join(out, " ")
}

// What is wrong is said at the field, which keeps what was typed; the country stays chosen.
func TestWhatIsWrongWithANumber(t *testing.T) {
	for typed, words := range map[string]string{
		"":                   "Enter your phone number.",
		"ana@example.com":    "Enter the number alone",
		"0151 23 ana":        "Enter the number alone",
		"+49 30":             "too few digits",
		"+999 12345678":      "There is no such phone number.",
		"+49 900 1234567":    "Numbers that cost the caller extra",
		"+34 612 34 56 78":   "We do not send codes to phone numbers of this country.",
		"+1 876 555 0123":    "We do not send codes to phone numbers of this country.", // Jamaica, whose code is that of the United States
		"0":                  "too few digits",
		"0151\u200b23456789": "There is an invisible character in it.",
	} {
		w := texting(t, "DE", "US")
		page := texted(t, w, "", typed)
		shows(t, page, "ask", words)
		field := regexp.MustCompile(`<input id="phone"[^>]*>`).FindString(page)
		for _, part := range []string{`type="tel"`, `autocomplete="tel"`, `aria-invalid="true"`, `aria-describedby="phone-error phone-hint"`, ` data-focus`} {
			if !strings.Contains(field, part) {
				t.Errorf("%q: the field has no %s: %s", typed, part, field)
			}
		}
		if kept := strings.ReplaceAll(typed, "+", "&#43;"); !strings.Contains(field, `value="`+kept+`"`) {
			t.Errorf("%q is not kept: %s", typed, field)
		}
		if !strings.Contains(page, `<p id="phone-error" class="error">`) || !strings.Contains(page, `value="DE" selected`) || !strings.Contains(page, `value="sms" checked`) {
			t.Errorf("%q: %s", typed, page)
		}
		if w.Codes.Sends() != 0 {
			t.Errorf("%q was sent to", typed)
		}
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

// Where somebody dials is what they chose, what their browser names, what is configured, what their language suggests.
func TestTheCountryThatIsChosen(t *testing.T) {
	chosen := regexp.MustCompile(`value="(\w\w)" selected`)
	for language, want := range map[string]string{
		"en-GB,en;q=0.9": "GB", "zh-CN,zh;q=0.9": "CN", "zh": "CN", "en": "US", "fr": "AT", "ja-JP,de-AT;q=0.5": "AT", "de": "DE", "": "AT", "??": "AT",
	} {
		w := texting(t, "AT", "CN", "DE", "GB", "US")
		w.Lang = language
		if got := chosen.FindStringSubmatch(get(t, w, "")); got == nil || got[1] != want {
			t.Errorf("%q: %v, want %s", language, got, want)
		}
	}
	w := texting(t, "AT", "DE", "US")
	page := post(t, w, "", "send", "channel", "sms", "country", "DE", "phone", "1")
	if got := chosen.FindStringSubmatch(page); got == nil || got[1] != "DE" {
		t.Errorf("after a mistake %v is chosen", got)
	}
	page = post(t, w, "?view=change", "send", "channel", "sms", "country", "XX", "phone", "0151 23456789")
	shows(t, page, "ask", "Begin the number with + and the country code")
}

// A number is in no address, no log and no cookie that can be read; the page shows it masked once it was sent to.
func TestANumberIsKeptFromSight(t *testing.T) {
	w := texting(t, "DE")
	answer := raw(t, w, http.MethodPost, "", formOf(t, w, "", "send", "channel", "sms", "country", "DE", "phone", number), nil)
	if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "/" {
		t.Fatalf("%d to %q", answer.StatusCode, answer.Header.Get("Location"))
	}
	w.Keep(answer.Cookies())
	w.Codes.Settle(audit.Sent)
	page := get(t, w, "")
	shows(t, page, "code", maskedNumber)
	sinks := page + w.Log.String() + fmt.Sprint(answer.Header)
	for _, secret := range []string{"1112223", "112223", "170 111"} {
		if strings.Contains(sinks, secret) {
			t.Errorf("%q can be read", secret)
		}
	}
}

// Two channels are two recipients with buckets of their own: each one's wait is its own, and stays true.
func TestEachChannelWaitsForItself(t *testing.T) {
	w := texting(t, "DE")
	w.Codes.Immediately = audit.Sent
	silent(t, post(t, w, "", "send", "to", uitest.Address), "Send a text message instead") // it mostly comes within the minute
	w.Advance(61 * time.Second)
	page := get(t, w, "")
	shows(t, page, "code", "Check your mail", "Send a text message instead")
	silent(t, page, "/?view=other")
	page = get(t, w, "?view=instead")
	shows(t, page, "ask", "Back to the code")
	if !strings.Contains(page, `value="sms" checked`) || strings.Contains(page, "1112") {
		t.Error("the field for a number is not there, or not empty")
	}
	shows(t, texted(t, w, "?view=instead", number), "code", "Check your phone", "Send again in 1:00", "Enter the code from the email")
	w.Advance(10 * time.Second)
	shows(t, get(t, w, "?view=other"), "code", "Check your mail", "Send again", "Send a text message instead "+maskedNumber+" · next code in 0:50", "Enter the code from the text message")
	shows(t, get(t, w, ""), "code", "Check your phone", "Send again in 0:50") // looking has changed nothing
	w.Advance(51 * time.Second)
	shows(t, get(t, w, ""), "code", "Check your phone", "Send by email instead a•••@example.com", "Enter the code from the email")
	if sends := w.Codes.Sends(); sends != 2 {
		t.Errorf("%d sends", sends)
	}
	shows(t, post(t, w, "", "other"), "code", "Check your mail", "Code sent again to a•••@example.com", "Send again in 1:00", "3 left")
	shows(t, get(t, w, "?view=other"), "code", "Check your phone", "4 left")
	if resends := w.Codes.Asks(); resends[2].Resend != "verification-1" || resends[2].Channel != "email" {
		t.Errorf("%+v", resends[2])
	}
}

// Going back to a channel that waits refuses nobody and asks for nothing.
func TestGoingBackToAChannelThatWaits(t *testing.T) {
	w := texting(t, "DE")
	w.Codes.Immediately = audit.Sent
	post(t, w, "", "send", "to", uitest.Address)
	w.Advance(61 * time.Second)
	texted(t, w, "?view=instead", number)
	w.Advance(10 * time.Second)
	asked := len(w.Codes.Asks())
	shows(t, post(t, w, "?view=other", "other"), "code", "Check your phone", "Send again in 0:50")
	if len(w.Codes.Asks()) != asked {
		t.Error("a code was asked for that had to wait")
	}
	for range 4 {
		w.Advance(61 * time.Second)
		post(t, w, "", "again")
	}
	w.Advance(61 * time.Second)
	shows(t, post(t, w, "", "other"), "code", "Check your mail") // its last code has expired, so it is a new one
	w.Advance(61 * time.Second)
	asked = len(w.Codes.Asks())
	shows(t, post(t, w, "", "other"), "enough", "That's enough for this hour", "5 codes were sent to "+maskedNumber, "Send by email instead a•••@example.com")
	if len(w.Codes.Asks()) != asked {
		t.Error("a code was asked for that had to wait")
	}
}

// A code that came by one channel is entered at that channel's card, also when the browser has gone on to the other.
func TestTheOtherCodeCanBeEntered(t *testing.T) {
	w := texting(t, "DE")
	w.Codes.Immediately = audit.Sent
	post(t, w, "", "send", "to", uitest.Address)
	w.Advance(61 * time.Second)
	texted(t, w, "?view=instead", number)
	shows(t, post(t, w, "?view=other", "check", "code", "111111"), "code", "Check your mail", "4 tries left") // and there it stays
	shows(t, post(t, w, "?view=other", "check", "code", uitest.Code), "approved", maskedNumber+" is yours")
	silent(t, get(t, w, "?view=change"), "ana@example.com", "111", "•••")
	if page := get(t, w, "?view=other"); kind(page) != "approved" {
		t.Errorf("%s", text(page))
	}
}

// Where somebody else's address takes the place of one, nothing stays of the number that was beside it.
func TestAnotherAddressForgetsTheNumber(t *testing.T) {
	w := texting(t, "DE")
	w.Codes.Immediately = audit.Sent
	texted(t, w, "", number)
	w.Advance(61 * time.Second)
	post(t, w, "?view=instead", "send", "channel", "email", "to", uitest.Address)
	w.Advance(61 * time.Second)
	shows(t, get(t, w, ""), "code", "Send a text message instead "+maskedNumber)
	page := post(t, w, "?view=change", "send", "channel", "email", "to", "ben@example.com")
	w.Advance(61 * time.Second)
	page += get(t, w, "") + get(t, w, "?view=instead") + get(t, w, "?view=other") + get(t, w, "?view=change")
	silent(t, page, "•••223", "1112", "ana@")
	if form, err := w.Form("", "other"); err == nil {
		t.Errorf("the other channel is still known: %v", form)
	}
}

// Nobody is told what belongs to an address elsewhere: the way to the other channel is the same for all.
func TestTheOtherChannelTellsNothingOfOthers(t *testing.T) {
	w := texting(t, "DE")
	w.Codes.Immediately = audit.Sent
	post(t, w, "", "send", "to", uitest.Address)
	w.Advance(61 * time.Second)
	texted(t, w, "?view=instead", number) // somebody with both
	w.Advance(61 * time.Second)
	known := func(address string) string {
		if err := w.Forget(); err != nil {
			t.Fatal(err)
		}
		post(t, w, "", "send", "channel", "email", "to", address)
		w.Advance(61 * time.Second)
		return strings.NewReplacer("a•••", "x", "b•••", "x").Replace(text(get(t, w, "?view=instead")))
	}
	if a, b := known(uitest.Address), known("ben@example.com"); a != b {
		t.Errorf("%s\n%s", a, b)
	}
}

// A form for the other channel that was posted late, or made up, does nothing.
func TestTheOtherChannelHasToBeKnown(t *testing.T) {
	w := texting(t, "DE")
	w.Codes.Immediately = audit.Sent
	post(t, w, "", "send", "to", uitest.Address)
	w.Advance(61 * time.Second)
	form := formOf(t, w, "", "again")
	form.Set("act", "other")
	answer := raw(t, w, http.MethodPost, "", form, nil)
	w.Keep(answer.Cookies())
	shows(t, get(t, w, ""), "code", "Check your mail", "This page was out of date.")
	if w.Codes.Sends() != 1 {
		t.Errorf("%d sends", w.Codes.Sends())
	}
}

// What another browser has spent of a number is waited for without a code of one's own; and a code that has ended is not led to.
func TestTheOtherChannelsWaitWithoutACode(t *testing.T) {
	w := texting(t, "DE")
	w.Codes.Immediately = audit.Sent
	texted(t, w, "", number)
	for range 4 {
		w.Advance(61 * time.Second)
		post(t, w, "", "again")
	}
	if err := w.Forget(); err != nil {
		t.Fatal(err)
	}
	post(t, w, "", "send", "channel", "email", "to", uitest.Address)
	w.Advance(61 * time.Second)
	shows(t, texted(t, w, "?view=instead", number), "enough", "That's enough for this hour", "5 codes were sent to "+maskedNumber, "Send by email instead a•••@example.com", "Enter the code from the email")
	stray := formOf(t, w, "", "again")
	shows(t, post(t, w, "", "other"), "code", "Check your mail", "Code sent again")
	w.Advance(61 * time.Second)
	page := get(t, w, "")
	shows(t, page, "code", "Send a text message instead "+maskedNumber+" · next code in 5")
	silent(t, page, "/?view=other")
	answer := raw(t, w, http.MethodPost, "", stray, nil) // of the channel without a code: it names none
	w.Keep(answer.Cookies())
	shows(t, get(t, w, ""), "code", "Check your mail", "This page was out of date.")
	w.Advance(55 * time.Minute)
	texted(t, w, "?view=instead", number)
	w.Advance(11 * time.Minute)
	page = get(t, w, "")
	shows(t, page, "ended", "Send by email instead a•••@example.com")
	silent(t, page, "/?view=other")
}

// A number that is refused leaves the browser where it was: at the code that was mailed.
func TestARefusedNumberLeavesTheCodeAlone(t *testing.T) {
	w := texting(t, "DE")
	w.Codes.Immediately = audit.Sent
	post(t, w, "", "send", "to", uitest.Address)
	w.Advance(61 * time.Second)
	shows(t, texted(t, w, "?view=instead", "+34 612 34 56 78"), "ask", "phone numbers of this country", "Back to the code")
	shows(t, get(t, w, ""), "code", "Check your mail", "a•••@example.com")
	shows(t, post(t, w, "", "check", "code", uitest.Code), "approved", "a•••@example.com")
}

// Text messages that are taken out of the configuration take nobody into a dead end.
func TestTextMessagesThatAreGone(t *testing.T) {
	w := texting(t, "DE")
	w.Codes.Immediately = audit.Sent
	texted(t, w, "", number)
	w.Advance(61 * time.Second)
	w.Codes.Text()
	shows(t, post(t, w, "", "again"), "ask", "Email address", "This page was out of date.")
}

func TestCookiesOfBeforeTheChoiceAreUnderstood(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = audit.Sent
	post(t, w, "", "send", "to", uitest.Address)
	w.Codes.Text("DE")
	w.Advance(61 * time.Second)
	shows(t, get(t, w, ""), "code", "Check your mail", "Send a text message instead")
}
