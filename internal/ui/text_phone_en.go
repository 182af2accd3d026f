package ui

// englishOnPhones are the words that are others where codes travel as text messages. text_test.go holds that nothing that
// speaks of mails is left without its like here.
var englishOnPhones = texts{
	AskLead: "We'll send a code to your phone.", AskLeadDigits: "We'll send a {n}-digit code to your phone.",
	AskLeadCharacters: "We'll send a code of {n} characters to your phone.",
	AddressLabel:      "Phone number",
	BadAddress: map[string]string{
		"empty":               "Enter your phone number.",
		"too_long":            "This number has too many digits. Please check it.",
		"too_short":           "This number has too few digits. Please check it, and its area code.",
		"invalid_number":      "There is no such phone number. Please check it, and the country.",
		"invalid_character":   "Enter the number alone: digits, with spaces, dashes or brackets if you like.",
		"no_country_code":     "Begin the number with + and the country code, as in +49 1512 3456789.",
		"number_not_allowed":  "Numbers that cost the caller extra get no codes. Please use a mobile number.",
		"country_not_served":  "We do not send codes to phone numbers of this country.",
		"voip":                "Numbers of internet telephony get no codes. Please use a mobile number.",
		"invisible_character": "There is an invisible character in it. Type the number instead of pasting it.",
		"control_character":   "There is an invisible character in it. Type the number instead of pasting it.",
	},
	BadAddressElse: "This is not a phone number. Please check it.",

	CheckMail: "Check your phone", MayArrive: "It may still arrive",
	CodeRequired:   "Enter the code from the text message.",
	ResendFailed:   "The last text message could not be sent, and does not count. If an earlier one reached you, its code still works.",
	NotArrivedLead: "The mobile network could not hand the last text message over to your phone. It counts all the same.",

	AcceptedAt: "The mobile network accepted it at {c}.", AcceptedElse: "The mobile network accepted it {d} ago.",
	NotAcceptedYet: "The mobile network has not accepted it yet; we keep trying.",
	AcceptedHow:    "We lost the mobile network's answer, so it may have been accepted. It can still arrive, and its code works.",
	HasArrived:     "The mobile network says that it is on your phone.",
	LookInSpamElse: "Check that your phone has signal, and look among blocked messages and those of unknown senders.",
	SameCode:       "A new text message brings the same code.", FreshCode: "A new text message brings a new code.",

	EnoughFailures:     "Codes do not reach this number",
	EnoughFailuresLead: "Many text messages to {to} failed lately, so no more are sent to it for a while. Check the number.",
	EnoughCarrier:      "Your mobile network lets no more codes through for now",
	EnoughCarrierLead:  "It limits how many codes a number gets, and {to} has had them. The limit is its own, not ours.",

	ChangeAddress: "Change the number",
	AwayKept:      "Your number is kept: {to}",
	ApprovedLead:  "{to} is yours.",
	Another:       "Use another number",
	PipsLabel:     "Codes sent to this number", CarrierRule: "mobile network",
}
