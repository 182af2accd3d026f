package page

import (
	"html/template"
	"strings"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/web"
)

// card is one state of the page, as its templates show it. Fields that a kind does not use are
// empty.
type card struct {
	Kind    string // ask, code, enough, failed, ended, away, link, cookies or approved: the name of its template
	T       words
	Page    *Page
	Heading string
	Lead    template.HTML
	Say     string        // text for screen readers when the card appears
	Poll    bool          // the mail is under way
	Follow  bool          // the script asks again soon
	Next    int64         // ms until time alone changes the state; 0: never
	Away    time.Duration // a part of the service does not answer: the wait of a 503; 0: it does
	Crowded time.Duration // the network made too many requests: the wait of a 429; 0: it did not
	Rev     string        // hash of what the card shows but for times; see contentHash
	Of      string        // mark of the verification that the forms belong to; see verificationMark
	Intent  string        // random ID of this rendering, so that a double click sends or checks once
	Note    *notice
	Known   bool        // offer to forget this device
	Support string      // sentence with the reference of the send for support; empty: not shown
	Typo    *suggestion // about the recipient; nil: none
	Again   resendButton
	Rows    []web.Pips
	Instead *otherChannelLink // nil: there is no other channel

	Ask    *askForm
	Code   *codeForm
	Since  relativeTime  // enough: which rule is spent, and since when
	Last   *relativeTime // enough: the last code still works
	Kept   template.HTML // away: the address that need not be typed again
	Reload bool          // away: the button reloads the page instead of repeating a post
	GoOn   string        // approved: what to do if Back is empty
	Back   string        // approved: address to return to the app; empty: no app sent the person
}

// Link returns the address of a view of the page.
func (k *card) Link(v requestedView) string { return k.Page.viewURL(v) }

// Title returns the browser's title for the card.
func (k *card) Title() string {
	if k.Page.Title == "" {
		return k.Heading
	}
	return k.Heading + " · " + k.Page.Title
}

// notice is a message beside the card's own words.
type notice struct {
	Tone string // good, note, warn, bad
	Text string
}

// askForm asks for the recipient, and for the channel if the page offers both.
type askForm struct {
	Channel recipient.Channel // the chosen one
	Choices []channelChoice   // none: there is one channel
	Mail    *textField        // nil: there is no mail
	Phone   *phoneField       // nil: there are no text messages
	Back    bool              // there is a code to go back to
}

type channelChoice struct {
	Channel recipient.Channel
	Label   string
	Chosen  bool
}

// textField has what the fields for an address and for a number have in common.
type textField struct {
	Name                string // of the field
	Label, Value, Error string
	Hint                string
	Doubt               *suggestion
	Focus               bool
}

// DescribedBy returns the IDs of the elements that describe the field, for aria-describedby.
func (e textField) DescribedBy() string {
	var ids []string
	if e.Error != "" {
		ids = append(ids, e.Name+"-error")
	}
	if e.Doubt != nil {
		ids = append(ids, e.Name+"-doubt")
	}
	if e.Hint != "" {
		ids = append(ids, e.Name+"-hint")
	}
	return strings.Join(ids, " ")
}

type phoneField struct {
	textField
	Pattern   string    // pattern of the hint, if the hint changes with the country
	Country   country   // of the numbers, if there is only one
	Countries []country // to choose from; nil: at most one
}

// suggestion asks about a domain that looks mistyped, or a number that probably gets no text
// messages.
type suggestion struct {
	Question string
	AsIs     string // after the question: what to do if the recipient is right
	Use      string // label of the button that takes the suggestion; empty: there is none
	Sure     string // the domain or number that is confirmed by sending again
	Draft    bool   // it is about the text in the field, to which no code was sent
}

// otherChannelLink is the button or link to the other channel.
type otherChannelLink struct {
	Label string
	Known bool              // the session has the recipient there, so one press sends
	To    string            // the masked recipient there, if Known
	Wait  web.PageCountdown // until a code can be asked for there; MS 0: now
	Now   string            // text of the wait until the script runs
	Enter string            // text of the link to the code that was sent there; empty: none was
	Back  bool              // show only the link Enter
}

// codeForm is the form with the field for the code.
type codeForm struct {
	Error   string
	Length  int // characters
	Letters bool
	Hint    string
	SMS     bool // the code comes by text message
	Keep    bool // the typed text was no code, and stays in the field
	Wrong   bool // a code was compared, and is wrong
	Expiry  relativeTime
	Help    *deliveryHelp
}

// deliveryHelp is the advice for a mail that does not arrive.
type deliveryHelp struct {
	Open   bool
	OpenIn int64 // ms until it opens by itself; 0: never
	Facts  []relativeTime
	Spam   template.HTML
	Wrong  string // text of the link to the field for the recipient
}

// resendButton is the button that asks for another code, with the time at which it can be pressed.
type resendButton struct {
	Label       string            // until it can be pressed
	Ready       string            // from then on
	Over        string            // text for screen readers at that time
	Wait        web.PageCountdown // of the text after the label; MS 0: it can be pressed now
	Now         string            // that text until the script runs
	Spoken      web.PageCountdown // the wait as screen readers say it
	Reason      string            // text of Spoken until the script runs
	Described   web.PageCountdown // the wait to the minute, as the button's description
	Description string            // text of Described until the script runs
	Total       int64             // ms, the whole wait, for the bar
	Share       float64           // percent of the whole wait that is left
	Quiet       bool              // it is not the main button of the card
}
