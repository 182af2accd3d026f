package app

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/parts"
)

// A mail server that is away is named where people look: metrics, console, log, doctor.
func TestMailServerSetAsideIsNamed(t *testing.T) {
	t.Parallel()
	s := embedded(t)
	away, good := smtptest.StartAt(t, parts.FreePort(t), smtptest.Script{}), smtptest.Start(t, smtptest.Script{})
	s.smtp = good
	s.env["SENDCODE_SMTP_URL"] = away.URL() + "," + good.URL()
	s.env["SENDCODE_ADMIN_PASSWORD"] = "a password for the tests"
	away.Stop()
	s.start(1)
	gauge := func(order, server, value string) string {
		return `sendcode_mail_server_up{order="` + order + `",server="` + server + `"} ` + value + "\n"
	}
	metrics := func() string { return string(s.do(0, http.MethodGet, "/metrics", "").raw) }
	if m := metrics(); !strings.Contains(m, gauge("1", away.Addr(), "1")) || !strings.Contains(m, gauge("2", good.Addr(), "1")) {
		t.Error("the metrics do not show two servers that are up")
	}
	for _, to := range []string{"a@example.com", "b@example.com", "c@example.com", "d@example.com"} {
		s.ask(0, to)
	}
	good.Await(4)
	if m := metrics(); !strings.Contains(m, gauge("1", away.Addr(), "0")) || !strings.Contains(m, gauge("2", good.Addr(), "1")) {
		t.Error("the metrics do not show which server is away")
	}
	if aside := s.replicas[0].SetAside(); len(aside) != 1 || aside[0].Server != away.Addr() || !strings.Contains(aside[0].Why, "refused") {
		t.Errorf("the console hears %+v", aside)
	}
	if !strings.Contains(s.printed.String(), `"msg":"a mail server is set aside","server":"`+away.Addr()+`"`) {
		t.Error("the log does not name the server")
	}
	var out strings.Builder
	cfg := s.config()
	if err := Doctor(s.Context(), cfg, &out); err == nil {
		t.Error("the doctor finds nothing")
	}
	if said := out.String(); !strings.Contains(said, "✗ mail server 1 of 2: 127.0.0.1: dial") || !strings.Contains(said, "✓ mail server 2 of 2: 127.0.0.1 answers") {
		t.Errorf("the doctor says %s", said)
	}
	away.Restart()
	s.await("the preferred server to be back", func() bool {
		s.ask(0, "e"+time.Now().Format("150405.000")+"@example.com")
		return strings.Contains(metrics(), gauge("1", away.Addr(), "1"))
	})
}
