package page

import (
	"html/template"
	"strings"
	"time"

	"sendcode/internal/recipient"
	"sendcode/web"
)

// card is one state of the page. Its kind is the name of its template.
type card interface {
	kind() string
	head() *frame
}

// frame is what every card has.
type frame struct {
	T       *cardTexts
	Page    *Page
	Heading string
	Say     string        // what a screen reader is told when the card comes
	Poll    bool          // the mail is under way: the script asks again soon
	Next    int64         // ms until the state changes by time alone; 0: it does not
	Away    bool          // a part of the service does not answer: 503
	Crowded time.Duration // too many requests came from the network: the wait of a 429; 0: they did not
	Rev     string        // equal for cards that differ in nothing but time
	Of      string        // mark of the verification that the forms are about
	Intent  string        // names this rendering, so that a double click acts once
	Note    *box
	Support string // names the send to support; empty: there is none, or no need
}

func (f *frame) head() *frame { return f }

// Link returns the address of a view of the page.
func (f *frame) Link(v view) string { return f.Page.address(v) }

// box is a message beside the card's own words.
type box struct {
	Tone string // good, note, warn, bad
	Text string
}

// askCard asks for the address or the number, and where there are both, which it shall be.
type askCard struct {
	frame
	Lead    string
	Channel recipient.Channel // that is chosen
	Choices []choice          // none: there is one channel
	Legend  string
	Mail    *entry      // nil: there is no mail
	Phone   *phoneField // nil: there are no text messages
	Typo    *suggestion // about the text in the field; nil: none
	Back    bool        // there is a code to go back to
}

type choice struct {
	Channel recipient.Channel
	Label   string
	Chosen  bool
}

// entry is what both fields have.
type entry struct {
	Name                string // of the field
	Label, Value, Error string
	Hint                string
	Doubt               *suggestion
	Focus               bool
}

// By returns the IDs of the elements that describe the field, for aria-describedby.
func (e entry) By() string {
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
	entry
	Pattern   string    // of the hint, where it changes with the country
	Country   country   // that numbers are dialled in, where it cannot be chosen
	Countries []country // to choose from; none: there is one
	Legend    string    // of the choice
}

// suggestion points out a likely slip in a domain, or a number that gets no text messages.
type suggestion struct {
	Question string
	AsIs     string // what to do if it is right, after a Separator
	Use      string // empty: there is nothing better to use
	Sure     string // the domain or number that sending once more confirms
	Draft    bool   // it is about the address in the field

	Separator string
}

// instead is the way to the other channel.
type instead struct {
	F     *frame
	Label string
	Known bool     // the browser knows the recipient there, so one press sends
	To    string   // masked, with Known
	Wait  web.Wait // until a code can be asked for there; MS 0: now
	Now   string   // what stands for the wait
	Enter string   // text of the link to the code that was sent there; empty: none was
	Back  bool     // only that link is shown
}

// rev returns what the card's revision contains of it: all but waits, which pass with time.
func (i *instead) rev() string {
	if i == nil {
		return ""
	}
	return rev(i.Label, i.To, i.Enter, i.Back, i.Wait.MS > 0)
}

// codeCard waits for the code.
type codeCard struct {
	frame
	Sent    template.HTML
	Label   string
	Error   string
	Length  int // characters
	Letters bool
	Hint    string
	Auto    bool // check as soon as all characters are in
	Keep    bool // the typed text was no code, and stays in the field
	Expiry  until
	Again   again
	Rows    []web.Pips
	Help    *help
	Sending bool
	Typo    *suggestion
	Instead *instead
}

// help is the advice for a mail that does not arrive.
type help struct {
	Open   bool
	OpenIn int64 // ms until it opens by itself; 0: never
	Facts  []until
	Spam   template.HTML
	Right  template.HTML
}

// again is the button that asks for another code, and says when it can be pressed.
type again struct {
	F      *frame
	Label  string   // while it waits
	Ready  string   // when it can be pressed
	Wait   web.Wait // of what stands after the label; MS 0: it can be pressed now
	Now    string   // what stands there
	Spoken web.Wait // the same for screen readers
	Reason string
	Total  int64   // ms: the whole wait, for the bar
	Share  float64 // of the whole that is left, in percent
	Quiet  bool    // it is not the main button of the card
}

// enoughCard says that a rule is spent, and until when.
type enoughCard struct {
	frame
	Lead  until
	Again again
	Rows  []web.Pips
	Last  *until // the last code still works

	Instead *instead
}

// failedCard says that the mail did not go out.
type failedCard struct {
	frame
	Lead    template.HTML
	Typo    *suggestion
	Again   again
	Instead *instead
}

// endedCard says that a code is no longer valid, and has a button for a new one.
type endedCard struct {
	frame
	Lead  string
	To    template.HTML
	Again again
	Rows  []web.Pips

	Instead *instead
}

// awayCard says that a part of the service does not answer.
type awayCard struct {
	frame
	Lead   string
	Kept   template.HTML
	Again  again
	Reload bool // the button only loads the page again
}

// approvedCard says that the address is confirmed.
type approvedCard struct {
	frame
	Lead template.HTML
	GoOn string
	Back string // address of the app that sent the person; empty: none
}

func (*askCard) kind() string      { return "ask" }
func (*codeCard) kind() string     { return "code" }
func (*enoughCard) kind() string   { return "enough" }
func (*failedCard) kind() string   { return "failed" }
func (*endedCard) kind() string    { return "ended" }
func (*awayCard) kind() string     { return "away" }
func (*approvedCard) kind() string { return "approved" }
