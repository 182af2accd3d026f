package ui_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/audit"
	"sendcode/internal/ui/uitest"
)

func world(t *testing.T) *uitest.World {
	t.Helper()
	w, err := uitest.NewWorld(uitest.DefaultRules())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func get(t *testing.T, w *uitest.World, query string) string {
	t.Helper()
	body, err := w.Get(query)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// post fills in the form that the page shows, and gives the page that follows.
func post(t *testing.T, w *uitest.World, query, act string, fields ...string) string {
	t.Helper()
	body, err := w.Post(query, act, fields...)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

var (
	tags  = regexp.MustCompile(`<[^>]*>`)
	kinds = regexp.MustCompile(`data-kind="(\w+)"`)
)

// text is what a person reads.
func text(page string) string {
	_, body, _ := strings.Cut(page, "<body")
	for from, to := range map[string]string{"&#39;": "'", "&amp;": "&", "&#34;": `"`} {
		body = strings.ReplaceAll(body, from, to)
	}
	return strings.Join(strings.Fields(tags.ReplaceAllString("<body"+body, " ")), " ")
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

func silent(t *testing.T, page string, words ...string) {
	t.Helper()
	for _, w := range words {
		if strings.Contains(page, w) {
			t.Errorf("the page says %q: %s", w, text(page))
		}
	}
}

func TestAPersonWithoutScriptsGetsInWithFormsAlone(t *testing.T) {
	w := world(t)
	shows(t, get(t, w, ""), "ask", "Your code for Shop", "6-digit code", "Send code")
	shows(t, post(t, w, "", "send", "to", uitest.Address), "code", "On its way", "Sending a code to a•••@example.com", "Send again in 1:00")
	w.Codes.Settle(audit.Sent)
	w.Advance(20 * time.Second)
	shows(t, get(t, w, ""), "code", "Check your mail", "Send again in 0:40", "4 left", "accepted it 20 s ago",
		"no-reply@shop.example", "A new mail brings the same code.")
	shows(t, post(t, w, "", "check", "code", "111111"), "code", "That is not the code. 4 tries left.")
	shows(t, post(t, w, "", "check", "code", " 482-913 "), "approved", "a•••@example.com is yours", "You can go on in Shop")
	shows(t, get(t, w, ""), "approved")
	shows(t, get(t, w, "?view=new"), "ask")
	silent(t, get(t, w, "?view=new"), "ana")
}

// Each state says the words that it has to say, in its own card.
func TestEachStateHasItsOwnWords(t *testing.T) {
	want := map[string]struct {
		kind  string
		words []string
	}{
		"ask":                 {"ask", []string{"Email address"}},
		"ask-bad-address":     {"ask", []string{"An address has an @"}},
		"ask-did-you-mean":    {"ask", []string{"Did you mean example.com?", "If exmaple.com is right, send it once more.", "Use example.com instead"}},
		"ask-change":          {"ask", []string{"Back to the code"}},
		"sending":             {"code", []string{"On its way"}},
		"sending-slow":        {"code", []string{"On its way", "Nothing yet?", "has not accepted it yet; we keep trying"}},
		"code-counting":       {"code", []string{"Check your mail", "Send again in 0:56", "free in 0:56", "Nothing yet?"}},
		"code-nothing-yet":    {"code", []string{"accepted it 18 s ago", "“ Your code for Shop ” from no-reply@shop.example", "Is a•••@example.com right?"}},
		"code-ready":          {"code", []string{"Send again this minute"}},
		"code-sent-again":     {"code", []string{"Code sent again to a•••@example.com", "3 left", "8 left"}},
		"code-wrong":          {"code", []string{"That is not the code. 3 tries left."}},
		"code-slip":           {"code", []string{"The code has 6 digits."}},
		"code-unknown":        {"code", []string{"It may still arrive", "A code may have reached", "We lost the mail server's answer"}},
		"code-resend-failed":  {"code", []string{"could not be delivered, and does not count", "its code still works", "Send again this minute"}},
		"code-hour-spent":     {"code", []string{"Next code in 54 min", "free in 54 min"}},
		"code-other-rules":    {"code", []string{"in 30 s", "in 6 h", "in 7 days", "37 left", "3 of 40 used"}},
		"enough-minute":       {"enough", []string{"A code was just sent", "1 code was sent to a•••@example.com in the last 12 s", "Send code in 0:48"}},
		"enough-hour":         {"enough", []string{"That's enough for this hour", "5 codes were sent to a•••@example.com in the last 31 min", "Next code in 29 min", "The last code still works for 7 min. Enter it", "5 left"}},
		"enough-day":          {"enough", []string{"That's enough for today", "10 codes were sent", "h 40 min"}},
		"enough-network":      {"enough", []string{"Too many codes for your network", "a•••@example.com itself is not the reason"}},
		"failed":              {"failed", []string{"Could not be delivered", "did not reach a•••@example.com", "did not count: you can ask again at once", "Change the address"}},
		"failed-did-you-mean": {"failed", []string{"a•••@exmaple.com", "Did you mean example.com?", "Use example.com instead"}},
		"too-many-tries":      {"ended", []string{"Too many wrong codes", "A new one goes to a•••@example.com", "Send a new code in 0:40"}},
		"expired":             {"ended", []string{"This code has expired", "A code works for 10 min.", "Send a new code this minute"}},
		"away":                {"away", []string{"We can't do this right now", "not about you or how often you asked", "Your address is kept: ana@example.com", "Try again"}},
		"away-reading":        {"away", []string{"We can't do this right now", "Try again"}},
		"offline":             {"code", []string{"Check your mail"}},
		"approved":            {"approved", []string{"is yours"}},
		"no-script":           {"code", []string{"See what's new"}},
	}
	for _, s := range uitest.States() {
		t.Run(s.Name, func(t *testing.T) {
			c, ok := want[s.Name]
			if !ok {
				t.Fatal("this state has no words to say")
			}
			w, err := s.New("en")
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			shows(t, get(t, w, s.Query), c.kind, c.words...)
			w.Lang = "zh-TW,zh;q=0.9,en;q=0.5"
			page := get(t, w, s.Query)
			if kind(page) != c.kind || !strings.Contains(page, `<html lang="zh-Hans"`) {
				t.Errorf("in Chinese the card is %q", kind(page))
			}
			left := regexp.MustCompile(`Shop|no-reply@shop\.example|ana@\w+\.com|a•••@\w+\.com|ana\.example\.com|ex\w+\.com`).ReplaceAllString(text(page), "")
			if english := regexp.MustCompile(`[A-Za-z]{2,}`).FindString(left); english != "" {
				t.Errorf("in Chinese the page says %q: %s", english, text(page))
			}
		})
	}
}

func TestTheServiceAwayIsA503ThatIsNoQuota(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = audit.Sent
	post(t, w, "", "send", "to", uitest.Address)
	w.Codes.Down(true)
	answer, err := w.Client().Get(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") != "5" {
		t.Errorf("status %d, Retry-After %q", answer.StatusCode, answer.Header.Get("Retry-After"))
	}
	page := get(t, w, "")
	shows(t, page, "away")
	silent(t, text(page), "enough", "left", "free")
	w.Codes.Down(false)
	shows(t, get(t, w, ""), "code")
}

// What was typed is kept, and one press sends it, as soon as the service is back.
func TestNobodyTypesTheirAddressTwice(t *testing.T) {
	w := world(t)
	w.Codes.Down(true)
	shows(t, post(t, w, "", "send", "to", uitest.Address), "away")
	w.Codes.Down(false)
	w.Codes.Immediately = audit.Sent
	shows(t, post(t, w, "", "again"), "code", "Code sent to a•••@example.com")
	w.Advance(11 * time.Minute)
	shows(t, get(t, w, ""), "ended", "This code has expired")
	shows(t, post(t, w, "", "again"), "code", "Check your mail")
	if page := get(t, w, "?view=change"); !strings.Contains(page, `value="ana@example.com"`) {
		t.Error("the address is not in the field")
	}
	if w.Codes.Sends() != 2 {
		t.Errorf("%d sends, want 2", w.Codes.Sends())
	}
}

func TestARefusalNamesItsRuleAndKeepsTheLastCode(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = audit.Sent
	post(t, w, "", "send", "to", uitest.Address)
	for range 4 {
		w.Advance(61 * time.Second)
		post(t, w, "", "again")
	}
	w.Advance(61 * time.Second)
	shows(t, get(t, w, ""), "code", "Next code in 55 min") // not asked yet: no alarm
	shows(t, post(t, w, "", "again"), "enough", "That's enough for this hour", "5 codes were sent", "Enter it")
	shows(t, get(t, w, "?view=code"), "code", "Next code in 55 min")
	shows(t, post(t, w, "?view=code", "check", "code", "482913"), "approved")
	if w.Codes.Sends() != 5 {
		t.Errorf("%d sends, want 5", w.Codes.Sends())
	}
}

// The wait told with a refusal is the one that the page still shows after a reload, until it is over.
func TestARefusalWithoutAVerificationSurvivesAReload(t *testing.T) {
	first := world(t)
	first.Codes.Immediately = audit.Sent
	post(t, first, "", "send", "to", uitest.Address)
	first.Advance(12 * time.Second)
	if err := first.Forget(); err != nil {
		t.Fatal(err)
	}
	shows(t, post(t, first, "", "send", "to", "ana@example.com"), "enough", "Send code in 0:48")
	first.Advance(10 * time.Second)
	shows(t, get(t, first, ""), "enough", "Send code in 0:38")
	first.Advance(38 * time.Second)
	page := get(t, first, "")
	shows(t, page, "ask", "You can ask for a code now.")
	if !strings.Contains(page, `value="ana@example.com"`) {
		t.Error("the address is not in the field")
	}
	silent(t, text(page), "left") // the wait is over: how much of the quota is used is nobody's business now
	shows(t, post(t, first, "", "send", "to", "ana@example.com"), "code")
}

// A verification that the log no longer has is no reason to type an address again, or for an error.
func TestAnErasedVerificationIsBegunAnew(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = audit.Sent
	post(t, w, "", "send", "to", uitest.Address)
	again, check := formOf(t, w, "", "again"), formOf(t, w, "", "check", "code", uitest.Code)
	w.Codes.Erase()
	page := get(t, w, "")
	shows(t, page, "ask")
	if !strings.Contains(page, `value="ana@example.com"`) {
		t.Error("the address is not in the field")
	}
	if answer := raw(t, w, http.MethodPost, "", check, nil); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("status %d", answer.StatusCode)
	}
	w.Advance(61 * time.Second)
	if answer := raw(t, w, http.MethodPost, "", again, nil); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("status %d", answer.StatusCode)
	}
	if w.Codes.Sends() != 2 || w.Codes.Checks() != 0 {
		t.Errorf("%d sends, %d checks", w.Codes.Sends(), w.Codes.Checks())
	}
}

// After an approval nothing of the address stays in the browser.
func TestApprovalForgetsTheAddress(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = audit.Sent
	post(t, w, "", "send", "to", uitest.Address)
	shows(t, post(t, w, "", "check", "code", uitest.Code), "approved")
	silent(t, get(t, w, "?view=change"), "ana@example.com")
}

// A day's wait is remembered for that day, an hour's for an hour.
func TestALongRefusalOutlivesTheHour(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = audit.Sent
	post(t, w, "", "send", "to", uitest.Address)
	for range 9 {
		w.Advance(13 * time.Minute)
		post(t, w, "", "again")
	}
	w.Advance(13 * time.Minute)
	shows(t, post(t, w, "", "again"), "enough", "That's enough for today")
	w.Advance(5 * time.Hour)
	shows(t, get(t, w, ""), "enough", "That's enough for today", "Next code in 16 h 50 min")
	w.Advance(17 * time.Hour)
	shows(t, get(t, w, ""), "ask")
}

// A refusal over a minute away is explained, a shorter one is the waiting that was there before.
func TestAShortRefusalIsNoAlarm(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = audit.Sent
	post(t, w, "", "send", "to", uitest.Address)
	w.Advance(time.Second)
	shows(t, post(t, w, "", "again"), "code", "Check your mail", "Send again in 0:59")
}
