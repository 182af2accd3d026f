package faults

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
	"sendcode/internal/app/doctor"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/parts"
)

// A mail server that is away is named where people look: metrics, console, log, doctor.
func TestMailServerSetAsideIsNamed(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
	away, good := smtptest.StartAt(t, parts.FreePort(t), smtptest.Script{}), smtptest.Start(t, smtptest.Script{})
	s.SMTP = good
	s.Env["SENDCODE_SMTP_URL"] = away.URL() + "," + good.URL()
	s.Env["SENDCODE_ADMIN_PASSWORD"] = "a password for the tests"
	away.Stop()
	s.Start(1)
	gauge := func(order, server, value string) string {
		return `sendcode_mail_server_up{order="` + order + `",server="` + server + `"} ` + value + "\n"
	}
	metrics := func() string { return string(s.Do(0, http.MethodGet, "/metrics", "").Raw) }
	if m := metrics(); !strings.Contains(m, gauge("1", away.Addr(), "1")) || !strings.Contains(m, gauge("2", good.Addr(), "1")) {
		t.Error("the metrics do not show two servers that are up")
	}
	for _, to := range []string{"a@example.com", "b@example.com", "c@example.com", "d@example.com"} {
		s.Ask(0, to)
	}
	good.Await(4)
	if m := metrics(); !strings.Contains(m, gauge("1", away.Addr(), "0")) || !strings.Contains(m, gauge("2", good.Addr(), "1")) {
		t.Error("the metrics do not show which server is away")
	}
	if aside := s.Replicas[0].SetAside(); len(aside) != 1 || aside[0].Server != away.Addr() || !strings.Contains(aside[0].Why, "refused") {
		t.Errorf("the console hears %+v", aside)
	}
	if !strings.Contains(s.Printed.String(), `"msg":"a mail server is set aside","server":"`+away.Addr()+`"`) {
		t.Error("the log does not name the server")
	}
	var out strings.Builder
	cfg := s.Config()
	if err := doctor.Examine(s.Context(), cfg, &out); err == nil {
		t.Error("the doctor finds nothing")
	}
	if said := out.String(); !strings.Contains(said, "✗ mail server 1 of 2: 127.0.0.1: dial") || !strings.Contains(said, "✓ mail server 2 of 2: 127.0.0.1 answers") {
		t.Errorf("the doctor says %s", said)
	}
	away.Restart()
	s.Await("the preferred server to be back", func() bool {
		s.Ask(0, "e"+time.Now().Format("150405.000")+"@example.com")
		return strings.Contains(metrics(), gauge("1", away.Addr(), "1"))
	})
}
