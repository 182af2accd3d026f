package pagetest

import (
	"time"

	"sendcode/internal/store"
)

// Number is the visitor's phone number as typed in Germany.
const Number = "0151 23456789"

// texting returns a step that sets the countries that text messages go to.
func texting(countries ...string) Step {
	return func(w *World) error { w.Codes.SetCountries(countries...); return nil }
}

// text asks for a code by text message.
func text(number string) Step { return textFrom("?view=new", number) }

// textFrom asks for a code by text message, from a view of the page.
func textFrom(view, number string) Step {
	return post(view, "send", "channel", "sms", "country", "DE", "phone", number)
}

// phoneStates returns the states in which the page offers text messages or has sent one.
func phoneStates() []State {
	both := texting("AT", "CH", "CN", "DE", "FR", "GB", "JM", "US")
	texted := repeat(1, both, text(Number), settle(store.Sent))
	mailed := repeat(1, both, send(Address), settle(store.Sent))
	return []State{
		{Name: "phone-ask", Query: "?view=instead", Steps: steps{both}},
		{Name: "phone-ask-choice", Steps: steps{both}},
		{Name: "phone-ask-one-country", Query: "?view=instead", Steps: steps{texting("DE")}},
		{Name: "phone-ask-bad", Query: "?view=change", Steps: steps{both, text("0151 2345 ana")}},
		{Name: "phone-ask-denied", Query: "?view=change", Steps: steps{both, text("+34 612 34 56 78")}},
		{Name: "phone-ask-landline", Query: "?view=change", Steps: steps{both, text("030 23125000")}},
		{Name: "phone-sending", Steps: steps{both, text(Number), settle(store.Sending)}},
		{Name: "phone-code", Steps: steps{texted, later(4 * time.Second)}},
		{Name: "phone-code-nothing-yet", Steps: steps{texted, later(18 * time.Second)}},
		{Name: "phone-code-ready", Steps: steps{texted, later(75 * time.Second)}},
		{Name: "phone-code-unknown", Steps: steps{both, text(Number), settle(store.Unknown), later(6 * time.Second)}},
		{Name: "phone-code-arrived", Steps: steps{
			both, text(Number), settle(store.Delivered),
			later(20 * time.Second),
		}},
		{
			Name:  "phone-code-undelivered",
			Steps: steps{both, text(Number), settle(store.Undelivered), later(8 * time.Second)},
		},
		{Name: "phone-code-wrong", Steps: steps{texted, later(9 * time.Second), check("111111")}},
		{Name: "phone-enough-hour", Steps: steps{
			both, immediately(store.Sent), text(Number),
			repeat(4, later(7*time.Minute), again()),
			later(3 * time.Minute), again(),
		}},
		{Name: "phone-failed", Steps: steps{both, text(Number), settle(store.Failed)}},
		{Name: "phone-carrier-limit", Steps: steps{both, text(Number), bar(23 * time.Hour), again()}},
		{Name: "phone-expired", Steps: steps{texted, later(11 * time.Minute)}},
		{Name: "phone-away", Steps: steps{both, down, text(Number)}},
		{Name: "phone-approved", Steps: steps{texted, later(10 * time.Second), check(Code)}},
		{Name: "phone-after-mail", Steps: steps{
			mailed, later(70 * time.Second), textFrom("?view=instead", Number),
			settle(store.Sent),
			later(75 * time.Second),
		}},
		{Name: "phone-mail-ready", Steps: steps{mailed, later(75 * time.Second)}},
		{Name: "phone-mail-other-waits", Query: "?view=other", Steps: steps{
			mailed, later(40 * time.Second),
			textFrom("?view=instead", Number), settle(store.Sent), later(25 * time.Second),
		}},
	}
}

// bar makes the carrier refuse the newest recipient for d.
func bar(d time.Duration) Step {
	return func(w *World) error { w.Codes.FailByCarrier(d); return nil }
}
