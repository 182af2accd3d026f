package ui_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/ui/uitest"
	"sendcode/quota"
)

// An exhausted network sees the same card for an address with codes and for one without, also from another network later.
// Both addresses look alike once they are masked.
func TestTheCardOfARefusalSaysNothingOfTheAddress(t *testing.T) {
	rules := append(uitest.DefaultRules(), quota.Rule{Name: "office", Scope: quota.IP, Limit: 3, Window: 20 * time.Minute})
	w, err := uitest.NewWorld(rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	w.Codes.Immediately = store.Sent
	for _, to := range []string{"ana@example.com", "ben@example.com", "cem@example.com"} {
		post(t, w, "?view=new", "send", "to", to)
	}
	var cards []string
	for _, to := range []string{"ana@example.com", "amy@example.com"} {
		if err := w.Forget(); err != nil {
			t.Fatal(err)
		}
		page := post(t, w, "?view=new", "send", "to", to)
		shows(t, page, "enough", "Too many codes for your network", "This limit is not about a•••@example.com.", "Next code in 20 min")
		silent(t, text(page), "this minute", "this hour", "today")
		elsewhere := seenFrom(t, w, "198.51.100.7")
		shows(t, elsewhere, "enough", "Too many codes for your network")
		cards = append(cards, drawn.ReplaceAllString(page, ""), drawn.ReplaceAllString(elsewhere, ""))
	}
	for _, card := range cards[1:] {
		if card != cards[0] {
			t.Errorf("the cards differ:\n%s\n%s", cards[0], card)
		}
	}
}

// seenFrom is the page as the same browser gets it at another address.
func seenFrom(t *testing.T, w *uitest.World, ip string) string {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, w.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", ip)
	for _, c := range w.Cookies() {
		r.AddCookie(c)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Of its recipient's rules a browser without a verification sees the one that refuses.
func TestTheCardOfARefusalShowsOneRule(t *testing.T) {
	w := world(t)
	w.Codes.Immediately = store.Sent
	post(t, w, "", "send", "to", uitest.Address)
	if err := w.Forget(); err != nil {
		t.Fatal(err)
	}
	page := post(t, w, "", "send", "to", uitest.Address)
	shows(t, page, "enough", "this minute", "1 of 1 used", "Send code in 1:00")
	silent(t, text(page), "this hour", "today")
}

// The page's own Idempotency-Key cannot be guessed, and a form with a name that can be has none.
func TestTheKeyOfAPressCannotBeGuessed(t *testing.T) {
	w := world(t)
	post(t, w, "", "send", "to", uitest.Address)
	post(t, w, "?view=new", "send", "to", "ben@example.com", "intent", "1")
	asks := w.Codes.Asks()
	if len(asks) != 2 || len(asks[0].Key) != 64 || strings.Trim(asks[0].Key, "0123456789abcdef") != "" || asks[1].Key != "" {
		t.Errorf("%+v", asks)
	}
}
