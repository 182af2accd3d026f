package page_test

import (
	"html"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/page"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/store"
	"sendcode/quota"
)

// world is a page whose clock moves only by hand, under the default policy or these rules.
func world(t *testing.T, rules ...quota.Rule) *pagetest.World {
	t.Helper()
	w := pagetest.NewWorld(rules...)
	t.Cleanup(w.Close)
	return w
}

// mailed is a world that accepts each mail at once, and has just sent its visitor a code.
func mailed(t *testing.T) *pagetest.World {
	t.Helper()
	w := world(t)
	w.Codes.Immediately = store.Sent
	post(t, w, "", "send", "to", pagetest.Address)
	return w
}

// resent asks for n more codes, each some time after the one before, and gives the last page.
func resent(t *testing.T, w *pagetest.World, n int, apart time.Duration) (page string) {
	t.Helper()
	for range n {
		w.Advance(apart)
		page = post(t, w, "", "again")
	}
	return page
}

func get(t *testing.T, w *pagetest.World, query string) string {
	t.Helper()
	body, err := w.Get(query)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// post fills in the form that the page shows, and gives the page that follows.
func post(t *testing.T, w *pagetest.World, query, act string, fields ...string) string {
	t.Helper()
	return submit(t, w, get(t, w, query), act, fields...)
}

// submit is post for a page that may have been shown some time ago.
func submit(t *testing.T, w *pagetest.World, page, act string, fields ...string) string {
	t.Helper()
	body, err := w.Submit(page, act, fields...)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	joined = regexp.MustCompile(`<span class="joined">(.*?)</span>`) // which parts no words
	kinds  = regexp.MustCompile(`data-kind="(\w+)"`)
)

// text is what a person reads.
func text(page string) string {
	_, body, _ := strings.Cut(page, "<body")
	body = joined.ReplaceAllString("<body"+body, "$1")
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(body, " "))), " ")
}

func kind(page string) string {
	if m := kinds.FindStringSubmatch(page); m != nil {
		return m[1]
	}
	return ""
}

// shows fails unless the page is of the kind and says all of the words.
func shows(t *testing.T, page, wantKind string, words ...string) {
	t.Helper()
	if got := kind(page); got != wantKind {
		t.Fatalf("the card is %q, want %q: %s", got, wantKind, text(page))
	}
	for _, w := range words {
		if !strings.Contains(text(page), w) {
			t.Errorf("the page does not say %q: %s", w, text(page))
		}
	}
}

// contains fails unless a page's HTML, or another text, has all of the parts.
func contains(t testing.TB, page string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %s: %s", part, page)
		}
	}
}

// is fails unless got is want.
func is[T comparable](t testing.TB, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// drawn is what a page has that is drawn at random or summed up: three digits of a number stand
// there by chance.
var drawn = regexp.MustCompile(`data-rev="\w*"|\?v=\w+|name="(?:of|intent)" value="[^"]*"|S-\w{4}-\w{4}`)

// silent fails if a page, or another text, has any of the words.
func silent(t testing.TB, page string, words ...string) {
	t.Helper()
	page = drawn.ReplaceAllString(page, "")
	for _, w := range words {
		if strings.Contains(page, w) {
			t.Errorf("the page says %q: %s", w, text(page))
		}
	}
}

// read is the text of a file.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAPersonWithoutScriptsGetsInWithFormsAlone(t *testing.T) {
	w := world(t)
	shows(t, get(t, w, ""), "ask", "Get a code", "6-digit code", "Send code")
	for typed, words := range map[string]string{
		"": "Enter your email address.", " ": "Enter your email address.",
		"ana’s@example.com": "Check this character: U+2019",
	} {
		shows(t, post(t, w, "", "send", "to", typed), "ask", words)
	}
	shows(t, post(t, w, "", "send", "to", pagetest.Address), "code", "On its way", "Sending a code to a•••@example.com",
		"Send again in 1:00")
	w.Codes.Settle(store.Sent)
	w.Advance(20 * time.Second)
	shows(t, get(t, w, ""), "code", "Check your mail", "Send again in 0:40", "4 left", "left us 20 s ago",
		"no-reply@shop.example", "A new email will contain the same code.")
	shows(t, post(t, w, "", "check", "code", "111111"), "code", "That code is wrong. 4 tries left.")
	shows(t, post(t, w, "", "check", "code", " 482-913 "), "approved", "a•••@example.com is confirmed.", "You can close this page.")
	shows(t, get(t, w, ""), "approved")
	shows(t, get(t, w, "?view=new"), "ask")
	silent(t, get(t, w, "?view=new")+get(t, w, "?view=change"), "ana@")
}

// A hold after a restore is told as long as it is, and a code that could not be compared stays in its field.
func TestAWaitOfTheService(t *testing.T) {
	w := mailed(t)
	w.Also(page.AppPage{App: "news", Title: "The News"})
	post(t, w, "?app=news", "send", "to", pagetest.Address)
	before := get(t, w, "")
	w.Codes.SetDown(true)
	shows(t, submit(t, w, before, "check", "code", pagetest.Code), "away")
	contains(t, get(t, w, "?app=news"), `method="get" action="/?app=news"`)
	w.Codes.SetDown(false)
	contains(t, get(t, w, ""), "data-keep")
	w.Codes.HoldUntil = w.Now().Add(2 * time.Hour)
	shows(t, post(t, w, "?view=change", "send", "to", "ben@example.com"), "away", "Next code in 2 h")
	answer := raw(t, w, http.MethodGet, "", nil, nil)
	is(t, answer.StatusCode, http.StatusServiceUnavailable)
	is(t, answer.Header.Get("Retry-After"), "7200")
}

// While the service is away the page is a 503, and speaks of no quota. What was typed is kept, and
// one press sends it, as soon as the service is back.
func TestTheAddressIsTypedOnce(t *testing.T) {
	w := world(t)
	w.Codes.SetDown(true)
	away := post(t, w, "", "send", "to", pagetest.Address)
	shows(t, away, "away")
	silent(t, text(away), "enough", "left", "free")
	answer := raw(t, w, http.MethodGet, "", nil, nil)
	is(t, answer.StatusCode, http.StatusServiceUnavailable)
	is(t, answer.Header.Get("Retry-After"), "5")
	w.Codes.SetDown(false)
	w.Codes.Immediately = store.Sent
	shows(t, post(t, w, "", "again"), "code", "Code sent to a•••@example.com")
	w.Advance(11 * time.Minute)
	shows(t, get(t, w, ""), "ended", "This code has expired")
	shows(t, post(t, w, "", "again"), "code", "Check your mail")
	contains(t, get(t, w, "?view=change"), `value="ana@example.com"`)
	is(t, w.Codes.Sends(), 2)
}

// The life of a code that lives a day is told in hours, while it lives and after, in
// the reader's language.
func TestALifeOfHours(t *testing.T) {
	for lang, words := range map[string][2]string{
		"en": {"Valid for 24 h.", "A code works for 24 h."},
		"es": {"Válido durante 24 h.", "Un código sirve durante 24 h."},
		"ar": {"صالح لمدة 24 س.", "الرمز صالح لمدة 24 س."},
		"zh": {"24 小时内有效。", "验证码的有效期是 24 小时。"},
	} {
		w := world(t)
		w.Lang, w.Codes.Immediately = lang, store.Sent
		w.Codes.Live(24 * time.Hour)
		shows(t, post(t, w, "", "send", "to", pagetest.Address), "code", words[0])
		w.Advance(24*time.Hour - time.Minute)
		shows(t, post(t, w, "", "check", "code", "000000"), "code")
		w.Advance(time.Minute)
		shows(t, get(t, w, ""), "ended", words[1])
	}
}

func TestARefusalNamesItsRuleAndKeepsTheLastCode(t *testing.T) {
	w := mailed(t)
	resent(t, w, 4, 61*time.Second)
	w.Advance(61 * time.Second)
	shows(t, get(t, w, ""), "code", "Next code in 55 min") // not asked yet: no alarm
	shows(t, post(t, w, "", "again"), "enough", "Hourly limit reached", "At most 5 codes per hour go to", "Enter it")
	shows(t, get(t, w, "?view=code"), "code", "Next code in 55 min")
	shows(t, post(t, w, "?view=code", "check", "code", "482913"), "approved")
	is(t, w.Codes.Sends(), 5)
}

// The wait told with a refusal is the one that the page still shows after a reload, until it is
// over.
func TestARefusalWithoutAVerificationSurvivesAReload(t *testing.T) {
	w := mailed(t)
	w.Advance(12 * time.Second)
	w.Forget()
	shows(t, post(t, w, "", "send", "to", pagetest.Address), "enough", "Send code in 0:48")
	w.Advance(10 * time.Second)
	shows(t, get(t, w, ""), "enough", "Send code in 0:38")
	w.Advance(38 * time.Second)
	page := get(t, w, "")
	shows(t, page, "ask", "You can request a code now.")
	contains(t, page, `value="ana@example.com"`)
	silent(t, text(page), "left") // the wait is over: how much of the quota is used does not matter now
	shows(t, post(t, w, "", "send", "to", pagetest.Address), "code")
}

// After a verification was erased, the address is still in the field, and old forms cause no error.
func TestAnErasedVerificationIsBegunAnew(t *testing.T) {
	w := mailed(t)
	again, check := formOf(t, w, "", "again"), formOf(t, w, "", "check", "code", pagetest.Code)
	w.Codes.Erase()
	page := get(t, w, "")
	shows(t, page, "ask")
	contains(t, page, `value="ana@example.com"`)
	is(t, raw(t, w, http.MethodPost, "", check, nil).StatusCode, http.StatusSeeOther)
	w.Advance(61 * time.Second)
	is(t, raw(t, w, http.MethodPost, "", again, nil).StatusCode, http.StatusSeeOther)
	is(t, w.Codes.Sends(), 2)
	is(t, w.Codes.Checks(), 0)
}

// A day's wait is remembered for that day, an hour's for an hour.
func TestALongRefusalOutlivesTheHour(t *testing.T) {
	w := mailed(t)
	shows(t, resent(t, w, 10, 13*time.Minute), "enough", "Daily limit reached")
	w.Advance(5 * time.Hour)
	shows(t, get(t, w, ""), "enough", "Daily limit reached", "Next code in 16 h 50 min")
	w.Advance(17 * time.Hour)
	shows(t, get(t, w, ""), "ask")
}

// After the wait of a refusal, the page reveals nothing more about an address that another person
// may be using.
func TestAnAddressIsNotWatchedAfterARefusal(t *testing.T) {
	w := mailed(t)
	w.Forget()
	shows(t, post(t, w, "", "send", "to", pagetest.Address), "enough")
	stranger := w.Cookies()
	w.Forget()
	w.Advance(time.Minute)
	shows(t, post(t, w, "", "send", "to", pagetest.Address), "code")
	w.Keep(stranger)
	shows(t, get(t, w, ""), "ask")
}

func TestHelpComesWhenItIsNeeded(t *testing.T) {
	w := world(t)
	page := post(t, w, "", "send", "to", pagetest.Address)
	contains(t, page, `<details class="help" data-open="15000">`)
	silent(t, page, "Look in spam")
	w.Codes.Settle(store.Sent)
	w.Advance(14 * time.Second)
	contains(t, get(t, w, ""), `<details class="help" data-open="1000">`)
	w.Advance(time.Second)
	contains(t, get(t, w, ""), `<details class="help" open>`, "Look in spam")
	contains(t, post(t, w, "", "check", "code", "111111"), `<details class="help">`) // who has a code has the mail
}

// A resend near the end of a code's life brings another code, and the page says so.
func TestTheNextMailIsSaidToBringWhatItBrings(t *testing.T) {
	w := mailed(t)
	w.Advance(8*time.Minute - time.Second)
	shows(t, get(t, w, ""), "code", "A new email will contain the same code. You can request it now.")
	w.Advance(2 * time.Second)
	shows(t, get(t, w, ""), "code", "A new email will contain a new code.")
}
