package smtp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/wneessen/go-mail/smtp"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/kit/servertest"
)

func TestEnhancedCodes(t *testing.T) {
	for text, want := range map[string]string{
		"5.1.1 no": "5.1.1", "5.1.1": "5.1.1", "5.1.1\nmore": "5.1.1", "5.123.999 x": "5.123.999",
		"": "", "no": "", "4.1.1 x": "", "2.0.0 x": "", "5.1 x": "", "5.1.1234 x": "", "5.1.1.1 x": "", "x 5.1.1": "",
		"5.1.1<a@b>": "", " 5.1.1": "", "5.1.1\r\nX": "5.1.1", "15.1.1 x": "",
	} {
		servertest.Same(t, text, parseEnhancedCode(550, text), want)
	}
}

// An error keeps the kind of its cause, but no text that might quote the server.
func TestErrorKeepsTheKindOfItsCause(t *testing.T) {
	for _, c := range []struct {
		stage string
		err   error
		want  error
	}{
		{delivery.StageMail, fmt.Errorf("x: %w", io.EOF), errConnBroken},
		{delivery.StageMail, io.ErrUnexpectedEOF, errConnBroken},
		{delivery.StageMail, fmt.Errorf("x: %w", os.ErrDeadlineExceeded), os.ErrDeadlineExceeded},
		{delivery.StageDial, context.DeadlineExceeded, os.ErrDeadlineExceeded},
		{delivery.StageDial, fmt.Errorf("x: %w", syscall.ECONNREFUSED), syscall.ECONNREFUSED},
		{delivery.StageDial, errors.New("ada@example.org"), errNoConnection},
		{delivery.StageTLS, errors.New("ada@example.org"), errHandshake},
		{delivery.StageAuth, errors.New("ada@example.org"), errLogin},
		{delivery.StageMail, textproto.ProtocolError("ada@example.org"), errProtocol},
		{delivery.StageMail, &textproto.Error{Code: 999, Msg: "ada@example.org"}, errProtocol},
	} {
		if got := newError(t.Context(), c.stage, c.err, delivery.PrivateData{}); !errors.Is(got.Err, c.want) ||
			strings.Contains(got.Error(), "ada") {
			t.Errorf("%s, %v: got %v, want %v", c.stage, c.err, got, c.want)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if got := newError(cancelled, delivery.StageMail, io.EOF, delivery.PrivateData{}); !errors.Is(got, context.Canceled) {
		t.Errorf("the cause of %v is not the context's", got)
	}
	if got := newError(cancelled, delivery.StageRcpt, &textproto.Error{Code: 550, Msg: "5.1.1 no"},
		delivery.PrivateData{}); got.Class != delivery.Rejected || got.Err != nil {
		t.Errorf("a whole reply became %v because the context is done", got)
	}
}

// The client chooses the strongest mechanism. It uses channel binding only with TLS 1.3, because
// the binding is not defined for older versions.
func TestStrongestMechanism(t *testing.T) {
	old, modern := &tls.ConnectionState{Version: tls.VersionTLS12}, &tls.ConnectionState{Version: tls.VersionTLS13}
	all := "LOGIN PLAIN CRAM-MD5 SCRAM-SHA-1 SCRAM-SHA-1-PLUS SCRAM-SHA-256 SCRAM-SHA-256-PLUS XOAUTH2"
	for _, c := range []struct {
		offered string
		state   *tls.ConnectionState
		want    string
		given   string
	}{
		{all, modern, "SCRAM-SHA-256-PLUS", ""},
		{all, old, "SCRAM-SHA-256", ""},
		{all, nil, "SCRAM-SHA-256", ""},
		{"LOGIN PLAIN CRAM-MD5 SCRAM-SHA-1 SCRAM-SHA-1-PLUS", modern, "SCRAM-SHA-1-PLUS", ""},
		{"LOGIN PLAIN CRAM-MD5 SCRAM-SHA-1 SCRAM-SHA-1-PLUS", old, "SCRAM-SHA-1", ""},
		{"LOGIN PLAIN CRAM-MD5", modern, "CRAM-MD5", ""},
		{"LOGIN PLAIN", modern, "PLAIN", ""},
		{"LOGIN", modern, "LOGIN", ""},
		{all, modern, "PLAIN", "PLAIN"},
		{"LOGIN", modern, "", "PLAIN"},
		{"XOAUTH2 NTLM", modern, "", ""},
	} {
		name := chooseMechanism(strings.Fields(c.offered), Config{Mechanism: c.given}, c.state)
		if name == "" && c.want == "" {
			continue
		}
		mechanism := newMechanism(name, Config{Username: "someone", Password: "p"}, c.state)
		if got, _, err := mechanism.Start(&smtp.ServerInfo{}); got != c.want || err != nil {
			t.Errorf("%s: got %s, want %s, %v", c.offered, got, c.want, err)
		}
	}
}

// A refused connection does not count as one that worked, even if it is still open while another
// connection serves its first mail.
func TestPoolRefusedConnHasNotWorked(t *testing.T) {
	p := &pool{limit: newConnLimit(4, 2, 20), conns: connCounts{open: 2}}
	trials := make([]*session, 2)
	for i := range trials {
		if _, ok := p.takeLocked(false); !ok {
			t.Fatal("no trial")
		}
		trials[i] = &session{}
	}
	servertest.Same(t, "others", p.connRefused(false), true)
	p.noteServed(trials[0])
	servertest.Same(t, "have worked", p.limit.provenConns, 3)
}

// A Temporary failure at RCPT or later is due to the recipient that a stranger chose, unless it is
// about this service or, after RCPT, about our account or our pace.
func TestBlameRecipient(t *testing.T) {
	about := func(class delivery.ErrorClass, stage string, about delivery.About) *delivery.Error {
		return &delivery.Error{Class: class, Stage: stage, About: about, Crowded: true}
	}
	after := []string{delivery.StageData, delivery.StageBody, delivery.StageDot}
	for _, stage := range append(after, delivery.StageRcpt, delivery.StageMail, "connect", "") {
		for _, subject := range []delivery.About{
			delivery.AboutUs, delivery.AboutPace, delivery.AboutAccount, delivery.AboutConnection, delivery.AboutRecipient,
		} {
			for _, class := range []delivery.ErrorClass{delivery.Temporary, delivery.Rejected} {
				theirs := subject == delivery.AboutConnection || subject == delivery.AboutRecipient
				ours := subject == delivery.AboutUs || !theirs && slices.Contains(after, stage)
				blamed := class == delivery.Temporary && !ours && (stage == delivery.StageRcpt || slices.Contains(after, stage))
				fail := about(class, stage, subject)
				want := about(class, stage, subject)
				if blamed {
					want.About, want.Crowded = delivery.AboutRecipient, false
				}
				blameRecipient(fail, nil, true)
				what := fmt.Sprint(class, stage, subject)
				servertest.Same(t, what+": about", fail.About, want.About)
				servertest.Same(t, what+": crowded", fail.Crowded, want.Crowded)
			}
		}
	}
	blameRecipient(nil, nil, true)
}

// If a mail ends two connections at the same step after MAIL, its recipient is the cause. For a
// known person's mail, any other failure is about what the reply says.
func TestBlameRecipientOfTwoConnections(t *testing.T) {
	for _, c := range []struct {
		name               string
		keptFailure, fresh *delivery.Error
		blamed             bool
	}{
		{name: "only a fresh one", fresh: &delivery.Error{Stage: delivery.StageRcpt, About: delivery.AboutConnection}},
		{
			name: "both at RCPT", keptFailure: &delivery.Error{Stage: delivery.StageRcpt, About: delivery.AboutConnection},
			fresh: &delivery.Error{Stage: delivery.StageRcpt, About: delivery.AboutConnection}, blamed: true,
		},
		{
			name: "both at MAIL", keptFailure: &delivery.Error{Stage: delivery.StageMail, About: delivery.AboutConnection},
			fresh: &delivery.Error{Stage: delivery.StageMail, About: delivery.AboutConnection},
		},
		{
			name: "at two steps", keptFailure: &delivery.Error{Stage: delivery.StageRcpt, About: delivery.AboutConnection},
			fresh: &delivery.Error{Stage: delivery.StageData, About: delivery.AboutConnection},
		},
		{
			name: "the used one broke", keptFailure: &delivery.Error{Stage: delivery.StageRcpt},
			fresh: &delivery.Error{Stage: delivery.StageRcpt, About: delivery.AboutConnection},
		},
		{
			name: "the fresh one broke", keptFailure: &delivery.Error{Stage: delivery.StageRcpt, About: delivery.AboutConnection},
			fresh: &delivery.Error{Stage: delivery.StageRcpt},
		},
	} {
		c.fresh.Class, c.fresh.Crowded = delivery.Temporary, true
		blameRecipient(c.fresh, c.keptFailure, false)
		servertest.Same(t, c.name, c.fresh.About == delivery.AboutRecipient, c.blamed)
		servertest.Same(t, c.name+": crowded", c.fresh.Crowded, !c.blamed)
	}
	blameRecipient(nil, &delivery.Error{}, false)
}
