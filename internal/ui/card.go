package ui

import (
	"html/template"

	"sendcode/web"
)

// card is one state of the page. Its kind is the name of its template.
type card interface {
	kind() string
	head() *frame
}

// frame is what every card has.
type frame struct {
	T       *texts
	Heading string
	Say     string // what a screen reader is told when the card comes
	Poll    bool   // something is under way: ask again soon
	Next    int64  // ms until the state changes by itself; 0: it does not
	Away    bool   // a part of the service does not answer: 503
	Rev     string // equal for cards that differ in nothing but time
	Of      string // mark of the verification that the forms are about
	Intent  string // names this rendering, so that a double click acts once
	Note    *box
	Support string // names the send to support; empty: there is none, or no need
}

func (f *frame) head() *frame { return f }

// box is a message beside the card's own words.
type box struct {
	Tone string // good, warn, bad
	Text string
}

// askCard asks for the address.
type askCard struct {
	frame
	Lead    string
	Address string
	Error   string
	Typo    *suggestion
	Back    bool // there is a code to go back to
}

// suggestion points out a likely slip in a domain.
type suggestion struct {
	Question string
	AsIs     string // what to do when it is no slip
	Use      string
	Domain   string // as typed
	Draft    bool   // about the address in the field
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
	Expiry  until
	Again   again
	Rows    []web.Pips
	Help    *help
	Sending bool
	Typo    *suggestion
}

// help is what one can do when no mail comes.
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
	Quiet  bool    // there is a better thing to do
}

// enoughCard says that a rule is spent, and until when.
type enoughCard struct {
	frame
	Lead  until
	Again again
	Rows  []web.Pips
	Last  *until // the last code still works
}

// failedCard says that the mail did not go out.
type failedCard struct {
	frame
	Lead  template.HTML
	Typo  *suggestion
	Again again
}

// endedCard says that a code is no good any more; a new one is one press away.
type endedCard struct {
	frame
	Lead  string
	To    template.HTML
	Again again
	Rows  []web.Pips
}

// awayCard says that a part of the service does not answer.
type awayCard struct {
	frame
	Lead   string
	Kept   template.HTML
	Again  again
	Reload bool // looking again is enough: nothing was asked for
}

// approvedCard says that the address is theirs.
type approvedCard struct {
	frame
	Lead template.HTML
	GoOn string
}

func (*askCard) kind() string      { return "ask" }
func (*codeCard) kind() string     { return "code" }
func (*enoughCard) kind() string   { return "enough" }
func (*failedCard) kind() string   { return "failed" }
func (*endedCard) kind() string    { return "ended" }
func (*awayCard) kind() string     { return "away" }
func (*approvedCard) kind() string { return "approved" }
