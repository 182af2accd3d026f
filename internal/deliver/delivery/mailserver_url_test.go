package delivery_test

import (
	"fmt"
	"strings"
	"testing"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailapi/mailapitest"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

func TestParseURLs(t *testing.T) {
	configs, err := mailserver.ParseURLs(
		"smtp://a.example, smtps://u:x%2Cy@b.example,resend://:k@,smtp://c.example?tls=opportunistic,resend://:k@127.0.0.1")
	var got []string
	for _, c := range configs {
		got = append(got, fmt.Sprint(c.Host, c.RequiresTLS))
	}
	if want := "a.exampletrue b.exampletrue api.resend.comtrue c.examplefalse 127.0.0.1false"; err != nil ||
		strings.Join(got, " ") != want {
		t.Errorf("got %v, %v", got, err)
	}
	servers, err := mailserver.Open(configs, "codes.example")
	if err != nil || len(servers) != 5 || servers.MaxConns() != 20 {
		t.Fatalf("%v, %v", servers, err)
	}
	_ = servers.Close()
	for list, reason := range map[string]string{
		"smtp://a.example,":                 "server 2: the scheme",
		"smtp://a.example,http://b.example": "the scheme must be one of smtp, smtps, ",
		"resend://:k@,resend://k@":          "server 2: must be resend",
	} {
		if _, err := mailserver.ParseURLs(list); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v", list, err)
		}
	}
	if _, err := mailserver.Open(configs, "a\r\nQUIT"); err == nil {
		t.Error("a command in the name passes")
	}
}

// TestFailoverBetweenKinds: within one Send, from a closed port of SMTP to a provider, and from a
// provider to SMTP where the mail was certainly not accepted. What may have been accepted goes to
// no other server.
func TestFailoverBetweenKinds(t *testing.T) {
	for _, rig := range mailapitest.Rigs() {
		t.Run(rig.Scheme, func(t *testing.T) {
			api, relay := mailapitest.Start(t, rig), smtptest.Start(t, smtptest.Script{})
			closed := fmt.Sprint("smtp://127.0.0.1:", servertest.FreePort(t))
			for n, c := range []struct {
				list         string
				then         mailapitest.Step
				class        delivery.ErrorClass
				byAPI, byMTA int
			}{
				{closed + "," + api.URL(), mailapitest.Accepts, "", 1, 0},
				{api.URL() + "," + relay.URL(), mailapitest.Answers(rig.Later), "", 0, 1},
				{closed + "," + api.URL() + "," + relay.URL(), mailapitest.Answers(rig.Later), "", 0, 1},
				{api.URL() + "," + relay.URL(), mailapitest.Answers(rig.Refused), delivery.Rejected, 0, 0},
			} {
				configs, err := mailserver.ParseURLs(c.list)
				if err != nil {
					t.Fatal(err)
				}
				servers, err := mailserver.Open(configs, "")
				if err != nil {
					t.Fatal(err)
				}
				api.Script(c.then)
				mails, relayed := len(api.Mails()), len(relay.Messages())
				_, err = servers.Send(t.Context(), smtptest.Sample(n))
				_ = servers.Close()
				got := delivery.ErrorClass("")
				if fail, ok := err.(*delivery.Error); ok {
					got = fail.Class
				}
				if got != c.class || len(api.Mails())-mails != c.byAPI || len(relay.Messages())-relayed != c.byMTA {
					t.Errorf("%d: %v, %d mails by the API and %d by SMTP", n, err, len(api.Mails())-mails,
						len(relay.Messages())-relayed)
				}
			}
		})
	}
}

// TestUnknownStaysWhereItIs: no other server gets a mail that a provider may have.
func TestUnknownStaysWhereItIs(t *testing.T) {
	for _, rig := range mailapitest.Rigs() {
		servertest.Bubble(t, func(t *testing.T) {
			api, relay := mailapitest.New(t, rig), smtptest.New(t, smtptest.Script{})
			api.Script(mailapitest.Breaks("HTTP/1.1 2"))
			_, err := append(provider(t, api), relay.Sender(t)...).Send(t.Context(), smtptest.Sample(1))
			if fail, ok := err.(*delivery.Error); !ok || fail.Class != delivery.Unknown || len(relay.Messages()) != 0 ||
				len(api.Mails()) != 1 {
				t.Errorf("%s: %v, %d mails by SMTP", rig.Scheme, err, len(relay.Messages()))
			}
			api.Stop()
		})
	}
}
