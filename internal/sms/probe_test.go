package sms

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"sendcode/internal/servertest"
)

// probed is a carrier that can be asked for receipts and probed, at an endpoint.
type probed struct {
	scripted
	at string
}

func (p *probed) Address() string { return p.at }

func (p *probed) Probe(context.Context) (string, error) { return "", nil }

func (p *probed) ReportsByID() bool { return p.name == "listed" }

func (p *probed) Ask(context.Context, Inquiry) (Report, bool, error) {
	return Report{}, false, nil
}

func TestWhoCanBeAsked(t *testing.T) {
	silent, listed := &probed{scripted: scripted{name: "silent"}}, &probed{scripted: scripted{name: "listed"}}
	routes := []Route{{Carrier: silent}, {Carrier: listed, Asked: true}, {Carrier: &scripted{name: "mute"}, Asked: true}}
	all := NewCarriers(routes, Options{Callback: func(string, string) string { return "x" }})
	for name, want := range map[string]bool{"silent": false, "listed": true, "mute": false, "stranger": false} {
		if _, ok := all.Asker(name); ok != want {
			t.Errorf("%s can be asked: %v", name, ok)
		}
		if got := all.ToldByID(name); got != want {
			t.Errorf("%s tells by its own ID: %v", name, got)
		}
		if _, ok := all.Reporter(name); ok {
			t.Errorf("%s tells", name)
		}
	}
	if NewCarriers([]Route{{Carrier: listed}}, Options{}).ToldByID("listed") {
		t.Error("it tells, though there is no one to call")
	}
}

func TestProbeOfAHostThatIsNotThere(t *testing.T) {
	unused := fmt.Sprint("http://127.0.0.1:", servertest.FreePort(t))
	foreign := httptest.NewTLSServer(http.NotFoundHandler()) // of a certificate that is not trusted
	t.Cleanup(foreign.Close)
	for endpoint, want := range map[string]error{unused: errNoReach, foreign.URL: errNoTLS, "https://unknown.invalid": errResolve} {
		if got, err := Probe(context.Background(), &probed{scripted{name: "c"}, endpoint}); !errors.Is(err, want) || got != "" {
			t.Errorf("%s: %q, %v", endpoint, got, err)
		}
	}
	if _, err := Probe(context.Background(), &scripted{name: "mute"}); !errors.Is(err, errProbe) {
		t.Errorf("%v", err)
	}
}
