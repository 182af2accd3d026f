package page_test

import (
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// Two channels are two recipients with buckets of their own: each one's wait is its own, and stays
// true.
func TestEachChannelWaitsForItself(t *testing.T) {
	w := texting(t, "DE")
	// it mostly comes within the minute
	silent(t, post(t, w, "", "send", "to", pagetest.Address), "Send a text message instead")
	w.Advance(61 * time.Second)
	page := get(t, w, "")
	shows(t, page, "code", "Check your mail", "Send a text message instead")
	silent(t, page, "/?view=other")
	page = get(t, w, "?view=instead")
	shows(t, page, "ask", "Back to the code")
	silent(t, page, "1112")
	contains(t, page, `value="sms" checked`)
	shows(t, texted(t, w, "?view=instead", number), "code", "Check your phone", "Send again in 1:00", "Enter the code from the email")
	w.Advance(10 * time.Second)
	shows(t, get(t, w, "?view=other"), "code", "Check your mail", "Send again",
		"Send a text message instead "+maskedNumber+" · next code in 0:50", "Enter the code from the text message")
	shows(t, get(t, w, ""), "code", "Check your phone", "Send again in 0:50") // looking has changed nothing
	// and going back to a channel that waits asks for nothing
	shows(t, post(t, w, "?view=other", "other"), "code", "Check your phone", "Send again in 0:50")
	is(t, len(w.Codes.Asks()), 2)
	w.Advance(51 * time.Second)
	shows(t, get(t, w, ""), "code", "Check your phone", "Send by email instead a•••@example.com", "Enter the code from the email")
	is(t, w.Codes.Sends(), 2)
	shows(t, post(t, w, "", "other"), "code", "Check your mail", "Code sent again to a•••@example.com", "Send again in 1:00", "3 left")
	shows(t, get(t, w, "?view=other"), "code", "Check your phone", "4 left")
	if resends := w.Codes.Asks(); resends[2].Resend != "verification-1" || resends[2].Channel != "email" {
		t.Errorf("%+v", resends[2])
	}
}

// A code that came by one channel is entered at that channel's card, also when the browser has gone
// on to the other. A number that is refused leaves the browser where it was: at the code that was
// mailed.
func TestTheOtherCodeCanBeEntered(t *testing.T) {
	w := mailedBefore(t)
	shows(t, texted(t, w, "?view=instead", "+34 612 34 56 78"), "ask", "numbers in this country", "Back to the code")
	shows(t, get(t, w, ""), "code", "Check your mail", "a•••@example.com")
	texted(t, w, "?view=instead", number)
	// and there it stays
	shows(t, post(t, w, "?view=other", "check", "code", "111111"), "code", "Check your mail", "4 tries left")
	shows(t, post(t, w, "?view=other", "check", "code", pagetest.Code), "approved", maskedNumber+" is confirmed")
	silent(t, get(t, w, "?view=change"), "ana@example.com", "111", "•••")
	shows(t, get(t, w, "?view=other"), "approved")
}

// Where another person's address takes the place of one, nothing stays of the number that was
// beside it.
func TestAnotherAddressForgetsTheNumber(t *testing.T) {
	w := texting(t, "DE")
	texted(t, w, "", number)
	w.Advance(61 * time.Second)
	post(t, w, "?view=instead", "send", "channel", "email", "to", pagetest.Address)
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

// A page never tells what belongs to an address elsewhere: the way to the other channel is the same
// for all.
func TestTheOtherChannelTellsNothingOfOthers(t *testing.T) {
	w := mailedBefore(t)
	texted(t, w, "?view=instead", number) // a person with both
	w.Advance(61 * time.Second)
	known := func(address string) string {
		w.Forget()
		post(t, w, "", "send", "channel", "email", "to", address)
		w.Advance(61 * time.Second)
		return strings.NewReplacer("a•••", "x", "b•••", "x").Replace(text(get(t, w, "?view=instead")))
	}
	is(t, known(pagetest.Address), known("ben@example.com"))
}

// A form for the other channel that was forged or posted late does nothing.
func TestTheOtherChannelHasToBeKnown(t *testing.T) {
	w := mailedBefore(t)
	shows(t, post(t, w, "", "again", "act", "other"), "code", "Check your mail", "This page was out of date.")
	is(t, w.Codes.Sends(), 1)
}

// What another browser has spent of a number is waited for without a code of one's own; and a code
// that has ended is not led to.
func TestTheOtherChannelsWaitWithoutACode(t *testing.T) {
	w := texting(t, "DE")
	texted(t, w, "", number)
	resent(t, w, 4, 61*time.Second)
	w.Forget()
	post(t, w, "", "send", "channel", "email", "to", pagetest.Address)
	w.Advance(61 * time.Second)
	stray := texted(t, w, "?view=instead", number)
	shows(t, stray, "enough", "Hourly limit reached", "At most 5 codes per hour go to "+maskedNumber,
		"Send by email instead a•••@example.com", "Enter the code from the email")
	shows(t, post(t, w, "", "other"), "code", "Check your mail", "Code sent again")
	w.Advance(61 * time.Second)
	page := get(t, w, "")
	shows(t, page, "code", "Send a text message instead "+maskedNumber+" · next code in 5")
	silent(t, page, "/?view=other")
	// the channel without a code: it names none
	shows(t, submit(t, w, stray, "again"), "code", "Check your mail", "This page was out of date.")
}

// An exhausted network sees the same card for an address with codes and for one without, also from
// another network later. Both addresses look alike once they are masked.
func TestTheCardOfARefusalSaysNothingOfTheAddress(t *testing.T) {
	w := world(t, append(verificationtest.DefaultRules(),
		quota.Rule{Name: "office", Scope: quota.IP, Limit: 3, Window: 20 * time.Minute})...)
	w.Codes.Immediately = store.Sent
	w.URL = strings.Replace(w.URL, "http:", "https:", 1) // as behind a proxy, which names the network
	from := func(ip string) { w.Header.Set("X-Forwarded-For", ip) }
	from("203.0.113.9")
	for _, to := range []string{"ana@example.com", "ben@example.com", "cem@example.com"} {
		post(t, w, "?view=new", "send", "to", to)
	}
	var cards []string
	for _, to := range []string{"ana@example.com", "amy@example.com"} {
		w.Forget()
		page := post(t, w, "?view=new", "send", "to", to)
		shows(t, page, "enough", "Too many codes for your network", "Your address isn't blocked.", "Next code in 20 min")
		silent(t, text(page), "per minute", "per hour", "in 24 hours", "this hour", "today")
		from("198.51.100.7")
		elsewhere := get(t, w, "")
		from("203.0.113.9")
		shows(t, elsewhere, "enough", "Too many codes for your network")
		cards = append(cards, drawn.ReplaceAllString(page, ""), drawn.ReplaceAllString(elsewhere, ""))
	}
	for _, card := range cards[1:] {
		if card != cards[0] {
			t.Errorf("the cards differ:\n%s\n%s", cards[0], card)
		}
	}
}

// The page's own Idempotency-Key cannot be guessed, and a form with a name that can be has none.
func TestTheKeyOfAPressCannotBeGuessed(t *testing.T) {
	w := world(t)
	post(t, w, "", "send", "to", pagetest.Address)
	post(t, w, "?view=new", "send", "to", "ben@example.com", "intent", "1")
	asks := w.Codes.Asks()
	if len(asks) != 2 || len(asks[0].IdempotencyKey) != 64 || strings.Trim(asks[0].IdempotencyKey, "0123456789abcdef") != "" ||
		asks[1].IdempotencyKey != "" {
		t.Errorf("%+v", asks)
	}
}
