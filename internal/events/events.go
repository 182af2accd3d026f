// Package events reads what a mail provider tells about mails that it has taken: delivered, bounced, complained. Each
// provider has its own JSON and its own way to sign it; a Source describes both, in settings, so that none of them has code
// of its own here.
//
// It stands at the edge, in front of package api: Source.Verify says whether a request is the provider's, Source.Parse what
// it says. What follows from it is decided by package verification. Nothing here knows the log or a network.
package events

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// Outcome is what an event means, whatever the provider calls it.
type Outcome string

// The outcomes. Bounced is a mail that came back for now or for a reason that may pass; Gone, one to a mailbox that is not
// there; OptedOut, a person who wants no more.
const (
	Ignored    Outcome = "ignored"
	Delivered  Outcome = "delivered"
	Bounced    Outcome = "bounced"
	Gone       Outcome = "bounced_for_good"
	Complained Outcome = "complained"
	OptedOut   Outcome = "opted_out"
)

// Outcomes are all that a table may name.
var Outcomes = []Outcome{Ignored, Delivered, Bounced, Gone, Complained, OptedOut}

// Event is one thing that a provider told.
type Event struct {
	Type    string // as the provider calls it; parts joined by points
	Outcome Outcome
	Known   bool      // the table names the type
	Send    uuid.UUID // that the mail was made for; Nil: the event names none of ours
	To      string    // as the provider has it; empty: not told
	At      time.Time // zero: not told
	Detail  string    // reply code and enhanced status code, or a single word; never a sentence, which may hold an address
}

// Source is a provider: the settings of it, whose tags and comments are read by package config.
type Source struct {
	// In the address and in metrics.
	Name string `yaml:"name" required:"yes" check:"name"`
	Auth Auth   `yaml:",inline"`
	// A header `X-…` that mails carry with the send's ID, if the provider replaces Message-ID.
	Header string `yaml:"message_header,omitempty" check:"mail_header"`
	Shape  Shape  `yaml:",inline"`
}

// Shape says where in the JSON what stands. Of several paths the first that leads to something counts.
type Shape struct {
	// The path of the events, a list or one; by default the body.
	List Path `yaml:"list,omitempty"`
	// Paths whose values, joined by points, are the type.
	Type []Path `yaml:"type,omitempty" required:"yes" single:"yes" style:"flow"`
	// Type to `delivered`, `bounced`, `bounced_for_good`, `complained`, `opted_out` or `ignored`; `Bounce` also means types that
	// begin with it.
	Outcomes map[string]Outcome `yaml:"outcomes" required:"yes" check:"outcome" style:"flow"`
	// The path of our Message-ID or of `message_header`.
	Message []Path `yaml:"message,omitempty" required:"yes" single:"yes" style:"flow"`
	// The recipient, which must match; the first path that exists counts.
	To []Path `yaml:"recipient,omitempty" single:"yes" style:"flow"`
	// RFC 3339, or seconds.
	Time []Path `yaml:"time,omitempty" single:"yes" style:"flow"`
	// Codes or a word.
	Detail []Path `yaml:"detail,omitempty" single:"yes" style:"flow"`
}

// ErrForged says that a request is not the provider's, or too old. It does not say why.
var ErrForged = errors.New("events: not the provider's word")

// ErrMalformed says that a body is not JSON of the shape that was described.
var ErrMalformed = errors.New("events: the body cannot be read")

// Bounds of one request.
const (
	MaxBody   = 1 << 20 // bytes
	maxEvents = 10_000
	maxDepth  = 32
)
