package page_test

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// Two posts of one form, as from a double click: one mail, and both answers know its verification.
func TestADoubleClickActsOnce(t *testing.T) {
	w := world(t)
	form := formOf(t, w, "", "send", "to", pagetest.Address)
	answers := make([]*http.Response, 8)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = raw(t, w, http.MethodPost, "", form, nil) })
	}
	all.Wait()
	is(t, w.Codes.Sends(), 1)
	for _, answer := range answers {
		w.Keep(answer.Cookies())
		shows(t, get(t, w, ""), "code", "On its way")
	}
}

// Without scripts a browser posts a form twice; a wrong code costs one try all the same.
func TestADoubleClickSpendsOneTry(t *testing.T) {
	w := mailed(t)
	form := formOf(t, w, "", "check", "code", "111111")
	for range 3 {
		raw(t, w, http.MethodPost, "", form, nil)
	}
	is(t, w.Codes.Checks(), 1)
	raw(t, w, http.MethodPost, "", formOf(t, w, "", "check", "code", "222222"), nil)
	is(t, w.Codes.Checks(), 2)
}

// The second post comes with the cookie of before the first, and finds the code that the first had
// sent over the other channel.
func TestADoubleClickForTheOtherChannel(t *testing.T) {
	w := mailedBefore(t)
	texted(t, w, "?view=instead", number)
	w.Advance(11 * time.Minute) // no code is valid
	page, before := get(t, w, ""), w.Cookies()
	submit(t, w, page, "other")
	w.Keep(before)
	shows(t, submit(t, w, page, "other"), "code", "Check your mail", "a•••@example.com")
	is(t, w.Codes.Sends(), 3)
}

// The same rendering posted again later acts again: a page from the back-forward cache has the old
// hidden fields.
func TestTheSameFormActsAgainLater(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = store.Sent
	form := formOf(t, w, "", "send", "to", pagetest.Address)
	w.Keep(raw(t, w, http.MethodPost, "", form, nil).Cookies())
	w.Advance(61 * time.Second)
	w.Keep(raw(t, w, http.MethodPost, "", form, nil).Cookies())
	form.Set("to", "ben@example.com")
	raw(t, w, http.MethodPost, "", form, nil)
	is(t, w.Codes.Sends(), 3)
}

// The answers to posts are lost, with their cookies. The next post of the kind finds the code that the person has by
// then, however long that took, and sends nothing.
func TestALostAnswerIsFoundAgain(t *testing.T) {
	w := mailedBefore(t)
	lost := func(query, act string, fields ...string) {
		t.Helper()
		before := w.Codes.Sends()
		raw(t, w, http.MethodPost, "", formOf(t, w, query, act, fields...), func(r *http.Request) { r.Header.Set("Accept-Language", "en") })
		is(t, w.Codes.Sends(), before+1)
	}
	found := func(kept, query, act string, fields ...string) {
		t.Helper()
		before := w.Codes.Sends()
		shows(t, post(t, w, query, act, fields...), "code", kept)
		is(t, w.Codes.Sends(), before)
		w.Advance(61 * time.Second)
		shows(t, post(t, w, "", "again"), "code", kept) // which acts
		is(t, w.Codes.Sends(), before+1)
		w.Advance(61 * time.Second)
	}
	w.Advance(8 * time.Minute)
	lost("", "again") // a new code, since the first one ends soon
	w.Advance(30 * time.Second)
	shows(t, get(t, w, ""), "code", "Valid for 29 s.")
	shows(t, post(t, w, "", "again"), "code", "Valid for 9 min.")
	is(t, w.Codes.Sends(), 2)
	w.Forget()
	lost("", "send", "channel", "email", "to", "ben@example.com")
	w.Advance(5 * time.Minute)
	found("b•••@example.com", "", "send", "channel", "email", "to", "ben@example.com")
	lost("?view=new", "send", "channel", "email", "to", "cem@example.com")
	found("c•••@example.com", "?view=change", "send", "channel", "email", "to", "cem@example.com")
	lost("?view=instead", "send", "channel", "sms", "phone", number, "country", "DE")
	found(maskedNumber, "?view=instead", "send", "channel", "sms", "phone", number, "country", "DE")
	w.Advance(11 * time.Minute) // no code is valid
	lost("", "other")
	found("c•••@example.com", "", "other")
	w.Advance(20 * time.Minute)
	w.Forget()
	lost("", "send", "channel", "email", "to", "dan@example.com")
	w.Advance(11 * time.Minute)
	before := w.Codes.Sends()
	shows(t, post(t, w, "", "send", "channel", "email", "to", "dan@example.com"), "code", "d•••@example.com")
	is(t, w.Codes.Sends(), before+1) // the code that was lost has expired
	w.Forget()
	lost("", "send", "channel", "email", "to", "eva@example.com")
	w.Lang = "es" // in which the request is another one
	shows(t, post(t, w, "", "send", "channel", "email", "to", "eva@example.com"), "enough")
}

// A send that the browser is told of is no reason to keep the next one back, and the cookie's intent changes no card.
func TestASecondPressSendsAgain(t *testing.T) {
	w := world(t, quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour})
	rev := regexp.MustCompile(`data-rev="\w+"`)
	is(t, rev.FindString(get(t, w, "")), rev.FindString(get(t, w, "")))
	w.Codes.Immediately = store.Sent
	post(t, w, "", "send", "to", pagetest.Address)
	for n := range 2 {
		shows(t, post(t, w, "", "again"), "code", "Code sent again")
		is(t, w.Codes.Sends(), n+2)
	}
}

// A message of a known verification whose answer was lost is on its card. The button, once it is free, sends another.
func TestALostAnswerOfAKnownCodeStopsNothing(t *testing.T) {
	w := mailed(t)
	for n := range 2 {
		w.Advance(61 * time.Second)
		raw(t, w, http.MethodPost, "", formOf(t, w, "", "again"), nil)
		is(t, w.Codes.Sends(), n+2)
		shows(t, get(t, w, ""), "code", "Code sent again", "Send again in 1:00")
	}
}

// Two tabs share a cookie: a code typed in the older one must not be tried on the newer one's
// verification.
func TestAFormOfAnotherVerificationDoesNothing(t *testing.T) {
	w := mailed(t)
	older := get(t, w, "")
	post(t, w, "?view=new", "send", "to", "ben@example.com")
	for _, act := range []string{"check", "again"} {
		shows(t, submit(t, w, older, act, "code", pagetest.Code), "code", "b•••@example.com", "This page was out of date.")
	}
	is(t, w.Codes.Checks(), 0)
	is(t, w.Codes.Sends(), 2)
}

// A resend names the verification, so that it stays the holder's; another address does not.
func TestOnlyTheSameAddressIsAResend(t *testing.T) {
	w := mailed(t)
	w.Advance(61 * time.Second)
	post(t, w, "?view=change", "send", "to", " ana@EXAMPLE.com ")
	w.Advance(61 * time.Second)
	post(t, w, "", "again")
	post(t, w, "?view=change", "send", "to", "ben@example.com")
	for i, a := range w.Codes.Asks() {
		resends := []string{"", "verification-1", "verification-1", ""}
		if a.Resend != resends[i] || a.App != "shop" || a.Kind != verification.Browser || !a.IP.IsLoopback() ||
			a.Languages != "en" || a.Channel != "email" {
			t.Errorf("asked %+v", a)
		}
	}
}

// A doubted address that was typed over a live verification does not get into its way.
func TestADraftLeavesTheVerificationAlone(t *testing.T) {
	w := mailed(t)
	shows(t, post(t, w, "?view=change", "send", "to", pagetest.Slip), "ask", "Did you mean example.com?")
	shows(t, get(t, w, ""), "code", "a•••@example.com")
	w.Advance(61 * time.Second)
	shows(t, post(t, w, "", "again"), "code", "Code sent again to a•••@example.com")
	post(t, w, "?view=change", "send", "to", "ben@exmaple.com")
	page := post(t, w, "?view=change", "use")
	shows(t, page, "ask")
	contains(t, page, `value="ben@example.com"`)
	shows(t, post(t, w, "?view=change", "send", "to", "ben@example.com"), "code", "b•••@example.com")
}

// No form and no address makes the page fail, and nothing that was typed is shown as markup.
func FuzzPage(f *testing.F) {
	f.Fuzz(func(t *testing.T, act, typed, query string) {
		w := world(t)
		w.Codes.SetCountries("DE", "US")
		mail := url.Values{"act": {act}, "to": {typed}, "code": {typed}, "sure": {typed}, "intent": {typed}, "of": {""}}
		phone := url.Values{
			"act": {act}, "channel": {"sms"}, "phone": {typed}, "country": {typed}, "code": {typed},
			"sure": {typed}, "of": {""},
		}
		for _, form := range []url.Values{phone, mail, nil} {
			method := http.MethodPost
			if form == nil {
				method = http.MethodGet
			}
			answer := raw(t, w, method, "", form,
				func(r *http.Request) { r.URL.RawQuery = strings.TrimPrefix(strings.Map(printable, query), "?") })
			body, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			w.Keep(answer.Cookies())
			if answer.StatusCode >= 500 {
				t.Errorf("%q %q %q: %d", act, typed, query, answer.StatusCode)
			}
			if strings.ContainsAny(typed, `<>"`) && len(typed) > 4 && strings.Contains(string(body), typed) {
				t.Errorf("%q stands in the page as it was typed", typed)
			}
		}
	})
}

// printable drops characters that a request line cannot have.
func printable(r rune) rune {
	if r <= ' ' || r > '~' || r == '#' {
		return -1
	}
	return r
}

// A pasted message is checked for the code in it, also without scripts; a slip costs no try and
// stays in the field.
func TestAPastedMessageIsACode(t *testing.T) {
	w := mailed(t)
	page := post(t, w, "", "check", "code", "12 34")
	shows(t, page, "code", "The code has 6 digits.")
	if !strings.Contains(page, "data-keep") || w.Codes.Checks() != 0 {
		t.Errorf("the slip is not kept, or costs a try: %d checks", w.Codes.Checks())
	}
	shows(t, post(t, w, "", "check", "code", "Shop: 482 913\u200b."), "approved")
}
