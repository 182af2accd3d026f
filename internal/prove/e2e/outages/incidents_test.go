//go:build nightly

package outages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/run/app/apptest"
)

// incident is a fault that an operator meets, with what leads to its cause: a log line that gives
// the reason and may name a section of the runbooks, and the metric of an alert.
type incident struct {
	begin func(s *apptest.Stack)
	line  []string                // texts in one line of the log; nil: no line is needed
	alert func(s *incidents) bool // whether the alert's condition holds
}

type incidents struct{ *apptest.Stack }

// metric returns the sum of the series whose lines have this beginning.
func (i *incidents) metric(begin string) (sum float64) {
	i.Helper()
	for line := range strings.Lines(string(i.Get("/metrics").Raw)) {
		if strings.HasPrefix(line, begin) {
			n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
			apptest.Must(i.T, err)
			sum += n
		}
	}
	return sum
}

// mean returns the seconds that a call takes on average while more requests for codes come.
func (i *incidents) mean(histogram string) float64 {
	i.Helper()
	sum, count := i.metric(histogram+"_sum"), i.metric(histogram+"_count")
	for n := range 5 {
		// A request may get a 503, because each call is late.
		i.Ask(0, fmt.Sprintf("mean%d.%v@example.com", n, count))
	}
	return (i.metric(histogram+"_sum") - sum) / (i.metric(histogram+"_count") - count)
}

// late delays a link's answers by 300 ms.
func late(setting string) func(s *apptest.Stack) {
	return func(s *apptest.Stack) {
		const late = `{"name":"late","type":"latency","stream":"downstream","attributes":{"latency":300}}`
		_, err := s.Through(setting).Toxics.AddToxicJson(strings.NewReader(late))
		apptest.Must(s.T, err)
	}
}

func TestIncidents(t *testing.T) {
	for name, c := range map[string]incident{
		"Redis is slow": {late("SENDCODE_REDIS_URL"), nil, func(s *incidents) bool { return s.mean("sendcode_redis_seconds") > .1 }},
		"Postgres is slow": {
			late("SENDCODE_DATABASE_URL"),
			[]string{`"msg":"slow statement","statement":"begin"`, `"see":"docs/runbooks.md#database-slow"`},
			func(s *incidents) bool { return s.mean("sendcode_statement_seconds") > .25 },
		},
		"everything is greylisted": {
			func(s *apptest.Stack) {
				s.MailRules(smtptest.Rule{Stage: smtptest.Rcpt, Reply: "450 4.7.1 greylisted"})
			},
			[]string{`"msg":"delivery attempt failed"`, `"server":"127.0.0.1"`, `"stage":"rcpt"`, `"reply":"450 4.7.1"`},
			func(s *incidents) bool {
				return s.metric(`sendcode_outbox_sends{channel="email"}`) == 1 &&
					s.metric(`sendcode_outbox_oldest_seconds{channel="email"}`) > 1 &&
					s.metric(`sendcode_delivery_attempt_seconds_count{channel="email",class="temporary"`) > 0 &&
					s.metric(`sendcode_send_seconds_count{app="default",channel="email",code="ours",outcome="sent"}`) == 0
			},
		},
		"a certificate is not verified, and need not be": {
			func(s *apptest.Stack) {
				url, _, _ := strings.Cut(s.SMTP.URL(), "?")
				s.Env["SENDCODE_SMTP_URL"] = url + "?tls=opportunistic"
			},
			[]string{`"msg":"mail server unverified`, `unknown authority`, `"see":"docs/runbooks.md#sends-wait"`},
			func(s *incidents) bool {
				return s.metric(`sendcode_send_seconds_count{app="default",channel="email",code="ours",outcome="sent"}`) == 1
			},
		},
		"the only server's certificate is not trusted": {
			func(s *apptest.Stack) {
				url, _, _ := strings.Cut(s.SMTP.URL(), "?")
				s.Env["SENDCODE_SMTP_URL"] = url + "?tls=required"
			},
			[]string{`"msg":"mail server suspended after failures"`, `certificate`, `"see":"docs/runbooks.md#sends-wait"`},
			func(s *incidents) bool {
				s.Ask(0, fmt.Sprintf("more%v@example.com", s.metric("sendcode_http_request_seconds_count")))
				return s.metric("sendcode_mail_server_up") == 0
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := apptest.OnRealParts(t)
			c.begin(s)
			s.Start(1)
			// The send is for a known person, because the metrics count a server's answers about
			// strangers' recipients separately.
			s.Post("/v1/verifications", `{"channel":"email","to":"`+apptest.Ana+`","trust":"known"}`)
			s.Await("what the alert looks at", func() bool { return c.alert(&incidents{s}) })
			s.Await("the line", func() bool {
				return slices.ContainsFunc(strings.Split(s.Printed.String(), "\n"), func(line string) bool {
					return !slices.ContainsFunc(c.line, func(text string) bool { return !strings.Contains(line, text) })
				})
			})
		})
	}
}
