package sms

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
)

// proxyAddress is where the environment's proxy for http would listen. Nothing listens there, and
// hosts of this machine are reached without a proxy.
const proxyAddress = "127.0.0.1:9"

// net/http reads the environment once, so it is set before any test.
func TestMain(m *testing.M) {
	if os.Setenv("HTTP_PROXY", "http://"+proxyAddress) != nil || os.Unsetenv("HTTPS_PROXY") != nil || os.Unsetenv("https_proxy") != nil {
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestApprovedTemplates(t *testing.T) {
	a := ApprovedTemplates{"default": {"en": "e", "zh-Hans": "z"}, "login": {"zh-Hans": "l"}}
	for _, c := range []struct{ purpose, language, want string }{
		{"login", "zh-Hans", "l"},
		{"login", "en", "e"},
		{"other", "zh-Hans", "z"},
		{"login", "de", "e"},
		{"other", "de", "e"},
	} {
		servertest.Same(t, c.purpose+" "+c.language, a.findTemplate(c.purpose, c.language), c.want)
	}
	servertest.Same(t, "another language", ApprovedTemplates{"default": {"zh-Hant": "t", "zh-Hans": "s"}}.findTemplate("x", "fr"), "s")
}

func TestSegments(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for name, c := range map[string]struct {
		text     string
		segments int
		unicode  bool
	}{
		"nothing":                          {"", 0, false},
		"160":                              {a(160), 1, false},
		"161":                              {a(161), 2, false},
		"307":                              {a(307), 3, false},
		"euro counts two":                  {a(158) + "€", 1, false},
		"159 and a euro":                   {a(159) + "€", 2, false},
		"an escape is not cut":             {a(152) + "€" + a(152), 3, false},
		"an escape that fits":              {a(151) + "€" + a(153), 2, false},
		"71":                               {strings.Repeat("码", 71), 2, true},
		"backtick":                         {"`", 1, true},
		"curly quote":                      {"it’s", 1, true},
		"36 emoji":                         {strings.Repeat("😀", 36), 2, true},
		"a pair is not cut":                {strings.Repeat("码", 66) + "😀" + strings.Repeat("码", 66), 3, true},
		"default alphabet":                 {gsmAlphabet, 1, false},
		"long s, a letter of another kind": {"ſ", 1, true},
	} {
		if n, unicode := Segments(c.text), NeedsUCS2(c.text); n != c.segments || unicode != c.unicode {
			t.Errorf("%s: %d, %v", name, n, unicode)
		}
	}
	if n := len([]rune(gsmAlphabet)); n != 127 {
		t.Errorf("the alphabet has %d characters, and one is the escape", n)
	}
}

// probed is a carrier that can be polled for receipts and probed, at an endpoint.
type probed struct {
	scripted
	at string
}

func (p *probed) EndpointURL() string { return p.at }

func (p *probed) Probe(context.Context) (string, error) { return "", nil }

func (p *probed) ReportsUseCarrierID() bool { return p.name == "listed" }

func (p *probed) PollStatus(context.Context, StatusQuery) (Report, bool, error) {
	return Report{}, false, nil
}

func TestCarriersPoller(t *testing.T) {
	silent, listed := &probed{scripted: scripted{name: "silent"}}, &probed{scripted: scripted{name: "listed"}}
	routes := []Route{
		{Carrier: silent},
		{Carrier: listed, Polled: true},
		{Carrier: &scripted{name: "mute"}, Polled: true},
	}
	all := NewCarriers(routes, CarriersOptions{CallbackURL: func(string, string) string { return "x" }})
	for name, want := range map[string]bool{"silent": false, "listed": true, "mute": false, "stranger": false} {
		if _, ok := all.Poller(name); ok != want {
			t.Errorf("%s can be asked: %v", name, ok)
		}
		servertest.Same(t, name+" tells by its own ID", all.ReportsUseCarrierID(name), want)
		if _, ok := all.ReportParser(name); ok {
			t.Errorf("%s tells", name)
		}
	}
	if NewCarriers([]Route{{Carrier: listed}}, CarriersOptions{}).ReportsUseCarrierID("listed") {
		t.Error("it tells, though there is no one to call")
	}
}

func TestProbeOfAHostThatIsNotThere(t *testing.T) {
	unused := fmt.Sprint("http://127.0.0.1:", servertest.FreePort(t))
	foreign := httptest.NewTLSServer(http.NotFoundHandler()) // has a certificate that is not trusted
	t.Cleanup(foreign.Close)
	for endpoint, want := range map[string]error{
		unused: errNoConnection, foreign.URL: errNoTLS,
		"https://unknown.invalid": errResolve, "http://behind.the.proxy.invalid": errNoConnection,
	} {
		if got, err := Probe(context.Background(), &probed{scripted{name: "c"}, endpoint}); !errors.Is(err, want) ||
			got != "" {
			t.Errorf("%s: %q, %v", endpoint, got, err)
		}
	}
	if _, err := Probe(context.Background(), &scripted{name: "mute"}); !errors.Is(err, errNoProbe) {
		t.Errorf("%v", err)
	}
}
