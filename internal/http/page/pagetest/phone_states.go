package pagetest

// Number is the visitor's phone number as typed in Germany.
const Number = "0151 23456789"

// texting returns a step that sets the countries to which the service sends text messages.
func texting(countries ...string) Step {
	return func(w *World) { w.Codes.SetCountries(countries...) }
}

// text returns a step that requests a code by text message.
func text(number string) Step {
	return ask(map[string]any{"channel": "sms", "country": "DE", "to": number})
}
