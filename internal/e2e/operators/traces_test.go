package operators

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sendcode/internal/app/apptest"
	"sendcode/internal/servertest"
)

const (
	callersTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersParent = "00f067aa0ba902b7"
	secretOfOTLP  = "canary-of-the-collector"
)

// withTraces makes the service export its spans to a collector.
func withTraces(s *apptest.Stack) *apptest.Collector {
	c := apptest.NewCollector(s.T)
	s.Env["OTEL_EXPORTER_OTLP_ENDPOINT"] = c.URL
	s.Env["OTEL_EXPORTER_OTLP_HEADERS"] = "authorization=" + secretOfOTLP
	return c
}

// end ends a process as an operator does, and waits until it has.
func end(s *apptest.Stack, p *apptest.Process) {
	s.Helper()
	apptest.Must(s.T, p.Cmd.Process.Signal(syscall.SIGTERM))
	apptest.Must(s.T, p.Cmd.Wait())
}

// traced adds the caller's trace to a request.
func traced(r *http.Request) {
	r.Header.Set("Traceparent", "00-"+callersTrace+"-"+callersParent+"-01")
	r.Header.Set("Tracestate", "canary=of.the.state")
}

// One send is seen from the request to the mail: the request in the caller's trace, its two gates
// and their trips; the attempt in a trace of its own with the request's ID. Carriers and webhooks
// get the trace of their attempt. A stop exports what was not exported yet, and no span has
// anything that is secret or of a person.
func TestTheTraceOfASend(t *testing.T) {
	t.Parallel()
	hook, carrier := apptest.NewReceiver(t), apptest.NewCarrier(t)
	s := apptest.OnRealParts(t).WithWebhook(hook, `sms:
  countries: [DE]
  carriers: [{name: rest, type: http, url: "`+carrier.URL+`/", body: "to={to}&text={text}"}]
`)
	collector := withTraces(s)
	p := s.Spawn()
	ask := func(method, path, body string, change ...func(*http.Request)) apptest.Answer {
		t.Helper()
		a, err := s.At(p.Base, method, path, body,
			append(change, func(r *http.Request) { r.Header.Set("User-Agent", "canary-of-an-agent") })...)
		apptest.Must(t, err)
		return a
	}
	sent := ask(http.MethodPost, "/v1/verifications",
		`{"channel":"email","to":"`+apptest.Ana+`","session":"canary-of-a-session","locale":"en"}`,
		traced, apptest.WithKey("canary-of-an-idempotency-key"))
	s.Is("a send", sent, http.StatusAccepted)
	servertest.Same(t, "the request's ID", sent.Header.Get("X-Request-Id"), callersTrace)
	code := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0])
	s.Is("a text message", ask(http.MethodPost, "/v1/verifications",
		`{"channel":"sms","to":"+4915123456789","locale":"en"}`), http.StatusAccepted)
	s.Await("a text message", func() bool { return len(carrier.Traces()) == 1 })
	checked := ask(http.MethodPost, "/v1/verifications/"+sent.ID+"/check", `{"code":"`+code+`"}`)
	s.Is("a check", checked, http.StatusOK)
	ask(http.MethodGet, "/v1/verifications/"+sent.ID, "")
	ask(http.MethodGet, "/canary-of-a-path?to="+apptest.Ana, "")
	ask(http.MethodGet, "/v1/admin/sends?recipient="+apptest.Ana, "", apptest.As(apptest.Token))
	told := s.AwaitTold(hook, 3) // sent by mail and as a text message, approved
	end(s, p)

	spans := collector.Spans()
	one := func(what string, is func(apptest.Span) bool) apptest.Span {
		t.Helper()
		i := slices.IndexFunc(spans, is)
		if i < 0 {
			t.Fatalf("no span is %s, of %+v", what, spans)
		}
		return spans[i]
	}
	request := one("the request", func(s apptest.Span) bool { return s.Trace == callersTrace && s.Kind == "server" })
	for what, is := range map[string][2]string{
		"name": {request.Name, "POST /v1/verifications"}, "parent": {request.Parent, callersParent},
		"ID":    {request.Attributes["sendcode.request_id"], callersTrace},
		"app":   {request.Attributes["sendcode.app"], "default"},
		"route": {request.Attributes["http.route"], "/v1/verifications"},
	} {
		servertest.Same(t, what, is[0], is[1])
	}
	tree := collector.Tree(callersTrace)
	for _, within := range []string{"\n  database claim\n    ", "\n  limiter take\n    evalsha\n",
		"\n  database begin\n    pool.acquire\n", "\n    batch start\n      INSERT"} {
		if !strings.Contains(tree, within) {
			t.Errorf("the trace of the request has no %q:\n%s", within, tree)
		}
	}
	attempt := one("the attempt", func(s apptest.Span) bool {
		return s.Name == "attempt" &&
			s.Attributes["sendcode.channel"] == "email"
	})
	servertest.Same(t, "the attempt's request", attempt.Attributes["sendcode.request_id"], callersTrace)
	for _, want := range []string{"attempt (sent)\n", "\n  offer (accepted)\n", "\n  database finish\n"} {
		if got := collector.Tree(attempt.Trace); attempt.Trace == callersTrace || !strings.Contains(got, want) {
			t.Errorf("the trace of the attempt has no %q:\n%s", want, got)
		}
	}
	offer := one("the offer", func(s apptest.Span) bool { return s.Name == "offer" && s.Trace == attempt.Trace })
	servertest.Same(t, "the mail server", offer.Attributes["sendcode.provider"], s.SMTP.Addr())
	text := one("the attempt as a text message",
		func(s apptest.Span) bool { return s.Attributes["sendcode.channel"] == "sms" })
	servertest.Same(t, "what the carrier got", carrier.Traces()[0], "00-"+text.Trace+"-"+text.ID+"-01")
	for _, event := range told {
		one("the delivery of "+event.Type, func(s apptest.Span) bool {
			return s.Name == "webhook" && s.Attributes["sendcode.event"] == event.Type &&
				s.Attributes["sendcode.outcome"] == "204" &&
				event.Traceparent == "00-"+s.Trace+"-"+s.ID+"-01"
		})
	}
	one("the check", func(s apptest.Span) bool { return s.Name == "POST /v1/verifications/:id/check" })
	one("a request without a route", func(s apptest.Span) bool { return s.Name == "GET" })
	// Two bytes alone may be in the binary IDs by chance, so the texts are searched for them.
	if strings.Contains(fmt.Sprintf("%+v", spans), "$1") {
		t.Error("spans show a parameter's place")
	}
	raw := strings.ToLower(collector.Raw())
	for what, canary := range map[string]string{
		"recipient": "ana.maria", "number": "15123456789", "code": code, "verification": sent.ID,
		"proof": checked.Proof, "session": "canary-of-a-session", "key": apptest.APIKey,
		"Idempotency-Key": "canary-of-an-idempotency-key", "token": apptest.Token, "state": "of.the.state",
		"agent": "canary-of-an-agent", "path": "canary-of-a-path",
		"bucket": "sendcode{", "statement": "insert into", "parameter": "= $1", "password": "a password",
		"collector's secret": secretOfOTLP,
	} {
		for _, trace := range []string{strings.ToLower(canary), fmt.Sprintf("%x", canary)} {
			if canary == "" || strings.Contains(raw, trace) {
				t.Errorf("spans show the %s", what)
			}
		}
	}
	if s.Logged(secretOfOTLP) {
		t.Error("the log shows the collector's secret")
	}
	t.Logf("\n%s\n%s", tree, collector.Tree(attempt.Trace))
}

// A collector that takes connections and does not answer delays no send: its spans wait in a short
// queue or are dropped. A stop succeeds, and the log says once that spans were lost.
func TestACollectorThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Policy(apptest.Roomy)
	given, over := make(chan struct{}, 1000), make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) { given <- struct{}{}; <-over }))
	defer silent.Close()
	defer close(over)
	for name, value := range map[string]string{"EXPORTER_OTLP_ENDPOINT": silent.URL, "EXPORTER_OTLP_TIMEOUT": "600000",
		"BSP_EXPORT_TIMEOUT": "600000",
		"BSP_MAX_QUEUE_SIZE": "4", "BSP_MAX_EXPORT_BATCH_SIZE": "2"} {
		s.Env["OTEL_"+name] = value
	}
	p := s.Spawn()
	send := func(n int) {
		t.Helper()
		a, err := s.At(p.Base, http.MethodPost, "/v1/verifications",
			fmt.Sprintf(`{"channel":"email","to":"person-%d@example.com"}`, n), apptest.Patiently)
		apptest.Must(t, err)
		s.Is("a send", a, http.StatusAccepted)
		servertest.Same(t, "its outcome", a.Send.Status, "sent")
	}
	send(0)
	<-given
	for n := range 30 { // many more spans than the queue has room for
		send(n + 1)
	}
	end(s, p)
	if n := strings.Count(s.Printed.String(), "spans not exported"); n != 1 {
		t.Errorf("the log has %d lines of spans: %s", n, s.Printed)
	}
}
