// Package smtptest is an SMTP server for tests that behaves, and misbehaves, by script. It records
// the client's dialogue: the accepted messages, their recipients, and the number of connections.
//
//	server := smtptest.Start(t, smtptest.Script{Rules: []smtptest.Rule{
//		{Stage: smtptest.Rcpt, Times: 1, Reply: "451 4.7.1 greylisted"},
//	}})
//	… send to server.URL() …
//	messages := server.Await(1)
//
// Stop and Restart simulate an outage on one port, that of [StartAt]. SetScript changes the
// behaviour of a running server. [New] makes a server without a listener. Its Dial works over
// net.Pipe and so within a testing/synctest bubble, where stalls and delays take no time. Only
// tests import this package.
package smtptest

import (
	"crypto/tls"
	"time"
)

// Stage is a point of the dialogue at which a rule applies.
type Stage string

// These are the stages, in the order of a dialogue.
const (
	Greet     Stage = "greet"     // in place of the greeting
	Hello     Stage = "hello"     // on EHLO or HELO
	StartTLS  Stage = "starttls"  // on STARTTLS
	Handshake Stage = "handshake" // after the answer to STARTTLS, or at once with Implicit
	Auth      Stage = "auth"      // on AUTH, in place of the whole exchange
	Mail      Stage = "mail"
	Rcpt      Stage = "rcpt"
	Data      Stage = "data" // on the DATA command
	Body      Stage = "body" // after the first line of the message
	Dot       Stage = "dot"  // after the final dot
	Idle      Stage = "idle" // after a message was accepted and answered
	Reset     Stage = "rset"
	Quit      Stage = "quit"
)

// Rule changes the server's behaviour at one stage. The first rule that fits and has uses left
// applies. A rule without Reply, Raw, Stall, Close and Abort gives the usual answer, after Delay.
type Rule struct {
	Stage Stage
	// To limits the rule to envelope recipients that end with this text (from RCPT on).
	To string
	// Over limits the rule to connections that found at least this many other connections open.
	Over int
	// Skip is how many matching occasions pass before the rule applies. Then the rule applies to
	// Times occasions, or to all of them if Times is 0.
	Skip, Times int

	// Until, if set, is a channel for which the rule first waits, before Delay.
	Until <-chan struct{}
	Delay time.Duration
	// Reply takes the place of the usual answer; CRLF is added.
	Reply string
	// Raw is written unchanged, after Reply.
	Raw string
	// Slow writes one byte at a time, with a Pause between bytes, or slowPause if Pause is zero.
	Slow  bool
	Pause time.Duration
	// Stall makes the server send and read nothing more until it stops.
	Stall bool
	// Close ends the connection without a closing message of TLS. Abort ends it with a reset if the
	// transport has one.
	Close, Abort bool
}

// slowPause is the pause between two bytes of a Slow rule without a Pause.
const slowPause = time.Millisecond

// Encryption says how the server offers TLS.
type Encryption int

// These are the kinds of encryption.
const (
	Plain    Encryption = iota // none
	STARTTLS                   // offered after EHLO
	Implicit                   // from the first byte
)

// Misbehaving returns the script of a server that follows the rules and otherwise accepts.
func Misbehaving(rules ...Rule) Script { return Script{Rules: rules} }

// Script is the behaviour of a server. The zero Script accepts every message in the clear.
type Script struct {
	Rules []Rule
	// TLS is offered with Identity or, without one, with a certificate for 127.0.0.1 by an
	// authority made for this server. MaxTLS, a version of crypto/tls, is the highest version that
	// the server accepts.
	TLS      Encryption
	Identity *tls.Certificate
	MaxTLS   uint16
	// Username and Password, if set, are required before MAIL; otherwise MAIL gets 530. Mechanisms
	// are the offered mechanisms: PLAIN and LOGIN by default.
	Username, Password string
	// OAuth makes URL name this client in place of the password. The token is then the password.
	OAuth      string
	Mechanisms []string
	// Extensions are the other EHLO keywords; by default 8BITMIME, ENHANCEDSTATUSCODES and
	// SMTPUTF8.
	Extensions []string
}

func (s Script) filled() Script {
	if s.Mechanisms == nil {
		s.Mechanisms = []string{"PLAIN", "LOGIN"}
	}
	if s.Extensions == nil {
		s.Extensions = []string{"8BITMIME", "ENHANCEDSTATUSCODES", "SMTPUTF8"}
	}
	return s
}
