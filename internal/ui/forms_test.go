package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/ui/uitest"
)

// Two posts of one form, as from a double click: one mail, and both answers know its verification.
func TestADoubleClickActsOnce(t *testing.T) {
	w := world(t)
	form := formOf(t, w, "", "send", "to", uitest.Address)
	answers := make([]*http.Response, 8)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = raw(t, w, http.MethodPost, "", form, nil) })
	}
	all.Wait()
	if w.Codes.Sends() != 1 || len(w.Codes.Asks()) != 1 {
		t.Errorf("%d sends, %d requests", w.Codes.Sends(), len(w.Codes.Asks()))
	}
	for _, answer := range answers {
		r := raw(t, w, http.MethodPost, "", url.Values{"act": {"check"}}, func(r *http.Request) { r.AddCookie(answer.Cookies()[0]) })
		if r.StatusCode != http.StatusSeeOther {
			t.Fatalf("status %d", r.StatusCode)
		}
		w.Keep(answer.Cookies())
		shows(t, get(t, w, ""), "code", "On its way")
	}
}

func TestADoubleClickSpendsOneTry(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = store.Sent
	post(t, w, "", "send", "to", uitest.Address)
	form := formOf(t, w, "", "check", "code", "111111")
	for range 3 {
		raw(t, w, http.MethodPost, "", form, nil)
	}
	if w.Codes.Checks() != 1 {
		t.Errorf("%d tries", w.Codes.Checks())
	}
	raw(t, w, http.MethodPost, "", formOf(t, w, "", "check", "code", "222222"), nil)
	if w.Codes.Checks() != 2 {
		t.Errorf("another code in another rendering: %d tries", w.Codes.Checks())
	}
}

// The same rendering, posted again after a while, is meant: a bfcached page has the old hidden fields.
func TestTheSameFormActsAgainLater(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = store.Sent
	form := formOf(t, w, "", "send", "to", uitest.Address)
	raw(t, w, http.MethodPost, "", form, nil)
	w.Advance(61 * time.Second)
	raw(t, w, http.MethodPost, "", form, nil)
	form.Set("to", "ben@example.com")
	raw(t, w, http.MethodPost, "", form, nil)
	if w.Codes.Sends() != 3 {
		t.Errorf("%d sends, want 3", w.Codes.Sends())
	}
}

// Two tabs share a cookie: a code typed in the older one must not be tried on the newer one's verification.
func TestAFormOfAnotherVerificationDoesNothing(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = store.Sent
	post(t, w, "", "send", "to", uitest.Address)
	older := formOf(t, w, "", "check", "code", uitest.Code)
	again := formOf(t, w, "", "again")
	post(t, w, "?view=new", "send", "to", "ben@example.com")
	for _, form := range []url.Values{older, again} {
		answer := raw(t, w, http.MethodPost, "", form, nil)
		w.Keep(answer.Cookies())
		shows(t, get(t, w, ""), "code", "b•••@example.com", "This page was out of date.")
	}
	if w.Codes.Checks() != 0 || w.Codes.Sends() != 2 {
		t.Errorf("%d checks, %d sends", w.Codes.Checks(), w.Codes.Sends())
	}
}

// A resend names the verification, so that it stays the holder's; another address does not.
func TestOnlyTheSameAddressIsAResend(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = store.Sent
	post(t, w, "", "send", "to", uitest.Address)
	w.Advance(61 * time.Second)
	post(t, w, "?view=change", "send", "to", " ana@EXAMPLE.com ")
	w.Advance(61 * time.Second)
	post(t, w, "", "again")
	post(t, w, "?view=change", "send", "to", "ben@example.com")
	var resends []string
	for _, a := range w.Codes.Asks() {
		resends = append(resends, a.Resend)
	}
	if got := strings.Join(resends, ","); got != ",verification-1,verification-1," {
		t.Errorf("resends of %q", got)
	}
	for _, a := range w.Codes.Asks() {
		if a.App != "shop" || a.Kind != 0 || !a.IP.IsLoopback() || a.Languages != "en" || a.Channel != "email" {
			t.Errorf("asked as %+v", a.Caller)
		}
	}
}

// A doubted address that was typed over a live verification does not get into its way.
func TestADraftLeavesTheVerificationAlone(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = store.Sent
	post(t, w, "", "send", "to", uitest.Address)
	shows(t, post(t, w, "?view=change", "send", "to", uitest.Slip), "ask", "Did you mean example.com?")
	shows(t, get(t, w, ""), "code", "a•••@example.com")
	w.Advance(61 * time.Second)
	shows(t, post(t, w, "", "again"), "code", "Code sent again to a•••@example.com")
	post(t, w, "?view=change", "send", "to", "ben@exmaple.com")
	page := post(t, w, "?view=change", "use")
	shows(t, page, "ask")
	if !strings.Contains(page, `value="ben@example.com"`) {
		t.Error("the suggestion is not in the field")
	}
	shows(t, post(t, w, "?view=change", "send", "to", "ben@example.com"), "code", "b•••@example.com")
}
