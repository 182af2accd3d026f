package ui

import "strconv"

var english = texts{
	Lang: "en", Dir: "ltr",

	AskHeading: "Get a code", AskHeadingApp: "Your code for {app}",
	AskLead: "We'll send a code to your address.", AskLeadDigits: "We'll send a {n}-digit code to your address.",
	AskLeadCharacters: "We'll send a code of {n} characters to your address.",
	AddressLabel:      "Email address",
	SendCode:          "Send code",
	DidYouMean:        "Did you mean {domain}?",
	MeantAsIs:         "If {domain} is right, send it once more.",
	UseInstead:        "Use {domain} instead",
	BackToCode:        "Back to the code",
	FreeNow:           "You can ask for a code now.",
	Stale:             "This page was out of date. Here is how things stand.",
	BadAddress: map[string]string{
		"empty":                "Enter your email address.",
		"too_long":             "This address is too long. Please check it.",
		"local_part_too_long":  "The part before the @ is too long. Please check it.",
		"no_at_sign":           "An address has an @, as in ana@example.com.",
		"no_local_part":        "Something is missing before the @.",
		"no_domain":            "Something is missing after the @, such as example.com.",
		"domain_incomplete":    "The part after the @ is not complete, such as example.com.",
		"invalid_domain":       "The part after the @ is not a valid name. Please check it.",
		"misplaced_dot":        "There is a dot too many. Please check the address.",
		"space":                "An address has no spaces.",
		"several_addresses":    "Enter one address only.",
		"display_name":         "Enter the address alone, without a name or < >.",
		"comment":              "Enter the address alone, without anything in parentheses.",
		"full_width_character": "The address has full-width characters. Type it in half-width form.",
		"invisible_character":  "There is an invisible character in it. Type the address instead of pasting it.",
		"control_character":    "There is an invisible character in it. Type the address instead of pasting it.",
		"ip_literal":           "Addresses with a number instead of a name after the @ are not accepted.",
		"disposable":           "Addresses at this domain live for a short while only. Please use another one.",
		"quoted_local_part":    "Addresses in quotation marks are not accepted.",
	},
	BadAddressElse: "This is not an email address. Please check it.",

	OnItsWay: "On its way", CheckMail: "Check your mail", MayArrive: "It may still arrive",
	SendingTo: "Sending a code to {to}", SentTo: "Code sent to {to}", MaybeSentTo: "A code may have reached {to}",
	SentAgainTo:        "Code sent again to {to}",
	Change:             "change",
	CodeLabel:          "Code",
	CheckCode:          "Check",
	CodeHint:           "It is checked as soon as all {n} digits are in.",
	CodeHintCharacters: "It is checked as soon as all {n} characters are in.",
	CodeRequired:       "Enter the code from the mail.", CodeNotDigits: "A code is made of digits only.",
	CodeNotCharacters:    "Some of these characters are in no code: it has no digits and no vowels.",
	CodeLength:           "The code has {n} digits.",
	CodeLengthCharacters: "The code has {n} characters.",
	TooManyChecks:        "Too many wrong codes were entered. Try again later.",
	WrongCode: func(n int) string {
		return "That is not the code. " + plural(n, "1 try left.", "{n} tries left.")
	},
	WorksUntil: "It works until {c}.", WorksElse: "It works for {d}.",
	LookAgain:    "See what's new",
	ResendFailed: "The last mail could not be delivered, and does not count. If an earlier one reached you, its code still works.",

	SendAgain: "Send again", NextCode: "Next code", NewCode: "Send a new code",
	In: "in {t}", At: "at {c} · {d}", InElse: "in {d}",
	TimerIn: "You can ask for another code in {d}.", TimerAt: "You can ask for another code at {c}, in {d}.",
	TimerElse:    "You can ask for another code in {d}.",
	AvailableNow: "You can ask for another code now.",

	NothingYet: "Nothing yet?",
	AcceptedAt: "The mail server accepted it at {c}.", AcceptedElse: "The mail server accepted it {d} ago.",
	NotAcceptedYet: "The mail server has not accepted it yet; we keep trying.",
	AcceptedHow:    "We lost the mail server's answer, so it may have been accepted. It can still arrive, and its code works.",
	LookInSpam:     "Look in spam for mail from {sender}.", LookInSpamFor: "Look in spam for “{subject}” from {sender}.",
	IsAddressRight: "Is {to} right?",
	SameCode:       "A new mail brings the same code.", FreshCode: "A new mail brings a new code.",
	AnotherNow: "You can ask for it now.",
	AnotherAt:  "You can ask for it at {c}.", AnotherElse: "You can ask for it in {d}.",
	AnotherIn: "You can ask for it in {t}.",

	EnoughMinute: "A code was just sent", EnoughHour: "That's enough for this hour", EnoughDay: "That's enough for today",
	EnoughWeek: "That's enough for this week", EnoughMonth: "That's enough for this month",
	Enough: "That's enough for now",
	SentSince: func(n int) string {
		return plural(n, "1 code was sent to {to} at {c}.", "{n} codes were sent to {to} since {c}.")
	},
	SentElse: func(n int) string {
		return plural(n, "1 code was sent to {to} in the last {d}.", "{n} codes were sent to {to} in the last {d}.")
	},
	SentWithin: func(n int) string {
		return plural(n, "1 code was sent to {to} {when}.", "{n} codes were sent to {to} {when}.")
	},
	EnoughAll:          "Too many codes right now",
	EnoughAllLead:      "A lot of codes are being asked for here, by everybody together. {to} itself is not the reason.",
	EnoughFailures:     "Codes do not reach this address",
	EnoughFailuresLead: "The mail server of {to} refused many codes lately, so no more are sent to it for a while. Check the address.",
	EnoughNetwork:      "Too many codes for your network",
	EnoughNetworkLead:  "A lot of codes were asked for over your connection, by you or by others who share it. {to} itself is not the reason.",
	LastCodeUntil:      "The last code still works until {c}.", LastCodeElse: "The last code still works for {d}.",
	EnterIt: "Enter it",

	NotDelivered: "Could not be delivered", NotDeliveredLead: "The code did not reach {to}.",
	DidNotCount: "This attempt did not count.", DidNotCountNow: "This attempt did not count: you can ask again at once.",
	ChangeAddress: "Change the address", TryAgain: "Try again",
	Expired: "This code has expired", ExpiredLead: "A code works for {d}.",
	TooManyTries: "Too many wrong codes", TooManyTriesLead: "To keep others from guessing, this code no longer works.",
	Canceled: "This code was withdrawn", CanceledLead: "It no longer works.",
	GoesTo:   "A new one goes to {to}.",
	Away:     "We can't do this right now",
	AwayLead: "Something on our side is not answering. It is not about you or how often you asked.",
	AwayKept: "Your address is kept: {to}",
	AwayCode: "Something on our side is not answering, so this did not work. Please try again in a moment.",
	Approved: "Approved", ApprovedLead: "{to} is yours.", GoOn: "You can go on.", GoOnApp: "You can go on in {app}.",
	Another: "Use another address",

	ThisMinute: "this minute", ThisHour: "this hour", Today: "today", ThisWeek: "this week", ThisMonth: "this month", Within: "in {d}",
	PipsFree: "free", PipsIn: "free in {t}", PipsAt: "free at {c}", PipsElse: "free in {d}",
	PipsLeft:   func(n int) string { return strconv.Itoa(n) + " left" },
	PipsSpoken: "{used} of {limit} used",
	PipsLabel:  "Codes sent to this address",

	Offline: "You are offline. The time goes on by itself; everything else waits for the connection.",
	Trouble: "That did not work. Please try again in a moment.",
	Days:    "{n} days", HoursMinutes: "{h} h {m} min", Hours: "{h} h", Minutes: "{m} min", Seconds: "{s} s",
	Stop:      ". ",
	Separator: " ",
}

// plural is English: one thing, or any other number of things.
func plural(n int, one, other string) string {
	if n == 1 {
		return one
	}
	return fill(other, "n", strconv.Itoa(n))
}
