package page

import (
	"cmp"
	"html/template"
	"strings"
	"time"

	"sendcode/internal/recipient"
	"sendcode/web"
)

// card is one state of the page. A field that a kind does not show is empty.
type card struct {
	Kind      string // ask, code, enough, failed, ended, away or approved: the name of its template
	T         words
	Page      *Page
	Heading   string
	Lead      template.HTML
	Say       string        // what a screen reader is told when the card comes
	Poll      bool          // the mail is under way
	Follow    bool          // the script asks again soon
	Next      int64         // ms until the state changes by time alone; 0: it does not
	Away      bool          // a part of the service does not answer: 503
	Crowded   time.Duration // too many requests came from the network: the wait of a 429; 0: they did not
	Rev       string        // equal for cards that differ in nothing but time
	Of        string        // mark of the verification that the forms are about
	Intent    string        // names this rendering, so that a double click sends or checks once
	Note      *notice
	Known     bool        // offer to forget this device
	Support   string      // names the send to support; empty: there is none, or no need
	Typo      *suggestion // about the recipient; nil: none
	Again     resendButton
	Rows      []web.Pips
	RulesOpen bool              // the rows are shown before they are asked for
	Instead   *otherChannelLink // nil: there is no other channel

	Ask    *askForm
	Code   *codeForm
	Since  relativeTime  // enough: which rule is spent, and since when
	Last   *relativeTime // enough: the last code still works
	Kept   template.HTML // away: the address that need not be typed again
	Reload bool          // away: the button only loads the page again
	GoOn   string        // approved: what to do where Back is empty
	Back   string        // approved: address of the app that sent the person; empty: none
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

// askForm asks for the address or the number. If the page has both channels, it also asks which
// one.
type askForm struct {
	Channel recipient.Channel // that is chosen
	Choices []channelChoice   // none: there is one channel
	Mail    *textField        // nil: there is no mail
	Phone   *phoneField       // nil: there are no text messages
	Back    bool              // there is a code to go back to
	Nonce   string            // that the browser's token must answer; empty: no token is taken
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
	Pattern   string    // of the hint, where it changes with the country
	Country   country   // that numbers are dialled in, where it cannot be chosen
	Countries []country // to choose from; none: there is one
}

// suggestion points out a likely slip in a domain, or a number that gets no text messages.
type suggestion struct {
	Question string
	AsIs     string // what to do if it is right, to stand after the question
	Use      string // empty: there is nothing better to use
	Sure     string // the domain or number that sending once more confirms
	Draft    bool   // it is about the address in the field
}

// otherChannelLink is the way to the other channel.
type otherChannelLink struct {
	Label string
	Known bool              // the browser knows the recipient there, so one press sends
	To    string            // masked, with Known
	Wait  web.PageCountdown // until a code can be asked for there; MS 0: now
	Now   string            // what stands for the wait
	Enter string            // text of the link to the code that was sent there; empty: none was
	Back  bool              // only that link is shown, if there is one
}

// codeForm waits for the code.
type codeForm struct {
	Error   string
	Length  int // characters
	Letters bool
	Hint    string
	SMS     bool // it comes by text message
	Keep    bool // the typed text was no code, and stays in the field
	Wrong   bool // a code was compared, and is wrong
	Expiry  relativeTime
	Help    *deliveryHelp
}

// Placeholder returns a dash for each character of the code, to stand in the empty field; a space where
// their number is not known.
func (f codeForm) Placeholder() string { return cmp.Or(strings.Repeat("–", f.Length), " ") }

// deliveryHelp is the advice for a mail that does not arrive.
type deliveryHelp struct {
	Open   bool
	OpenIn int64 // ms until it opens by itself; 0: never
	Facts  []relativeTime
	Spam   template.HTML
	Wrong  string // text of the link to the field for the recipient
}

// resendButton is the button that asks for another code, and says when it can be pressed.
type resendButton struct {
	Label       string            // while it waits
	Ready       string            // when it can be pressed
	Over        string            // what a screen reader is told then
	Wait        web.PageCountdown // of what stands after the label; MS 0: it can be pressed now
	Now         string            // what stands there
	Spoken      web.PageCountdown // the same for screen readers
	Reason      string
	Described   web.PageCountdown // the same to the minute, as the button's description
	Description string
	Total       int64   // ms: the whole wait, for the bar
	Share       float64 // of the whole that is left, in percent
	Quiet       bool    // it is not the main button of the card
}
