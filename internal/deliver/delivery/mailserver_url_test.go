package delivery_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailapi"
	"sendcode/internal/deliver/delivery/mailapi/mailapitest"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/delivery/smtp"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

func TestParseURLs(t *testing.T) {
	configs, err := mailserver.ParseURLs(
		"smtp://a.example, smtps://u:x%2Cy@b.example,resend://:k@,smtp://c.example?tls=opportunistic,resend://:k@127.0.0.1", nil)
	type server struct {
		host        string
		requiresTLS bool
	}
	servertest.OK(t, err)
	for i, want := range []server{
		{"a.example", true}, {"b.example", true}, {"api.resend.com", true}, {"c.example", false}, {"127.0.0.1", false},
	} {
		servertest.Same(t, want.host, server{configs[i].Host, configs[i].RequiresTLS}, want)
	}
	servers, err := mailserver.Open(configs, "codes.example")
	if err != nil || len(servers) != 5 || servers.MaxConns() != 3*20+2*4 {
		t.Fatalf("%v, %v", servers, err)
	}
	_ = servers.Close()
	for list, conns := range map[string]int{
		"smtp://u@smtp.office365.com?oauth=m": 3, "smtp://u:p@smtp.office365.com": 3,
		"smtp://u@smtp.office365.com?oauth=m&conns=9": 9, "smtp://smtp.office365.com": 3,
		"smtp://a.example": 20, "smtp://a.example?conns=4": 4, "smtp://a.example?connections=5": 5, "resend://:k@?connections=6": 6,
	} {
		configs, err := mailserver.ParseURLs(list, nil)
		servertest.OK(t, err)
		servers, err := mailserver.Open(configs, "codes.example")
		if err != nil || servers.MaxConns() != conns {
			t.Errorf("%s: %d connections, %v", list, servers.MaxConns(), err)
		}
	}
	for list, reason := range map[string]string{
		"smtp://a.example,":                 "server 2: the scheme",
		"smtp://a.example?connections=0":    "conns must be from 1 to 1000",
		"smtp://h?connections=4&conns=4":    "a parameter is given twice",
		"resend://:k@?connections=4&conns=": "a parameter is given twice",
		"smtp://a.example,http://b.example": "the scheme must be one of smtp, smtps, ",
		"resend://:k@,resend://k@":          "server 2: must be resend",
	} {
		if _, err := mailserver.ParseURLs(list, nil); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v", list, err)
		}
	}
	if _, err := mailserver.Open(configs, "a\r\nQUIT"); err == nil {
		t.Error("a command in the name passes")
	}
}

// A hint warns of a port that does not fit the encryption, of a login with optional encryption, and
// of the end of password logins at Microsoft.
func TestServerURLHints(t *testing.T) {
	for url, says := range map[string]string{
		"smtp://u:p@mail.example:465": "smtps://", "smtps://mail.example:587": "smtp://", "smtp://u:p@mail.example": "",
		"smtp://u:p@mail.example?tls=opportunistic": "set tls=required", "smtp://mail.example?tls=opportunistic": "",
		"smtp://u:p@127.0.0.1?tls=opportunistic": "",
		"smtp://u:p@smtp.office365.com":          "December 2026", "smtp://u:p@SMTP-mail.outlook.com.": "December 2026",
		"smtp://shop-example.mail.protection.outlook.com:25": "", "smtp://smtp.office365.com": "",
		"smtp://u%40x@smtp.office365.com?oauth=m365": "",
		"smtp://u:p@smtp-hve.office365.com":          "", "smtp://u:p@smtp.office365.com.example": "", "resend://:k@": "",
	} {
		configs, err := mailserver.ParseURLs(url, nil)
		servertest.OK(t, err)
		if hint := configs[0].Hint; !strings.Contains(hint, says) || (says == "") != (hint == "") {
			t.Errorf("%s: %q", url, hint)
		}
	}
}

func TestServerConfigsPrintNoPassword(t *testing.T) {
	relay, err := smtp.ParseURL("smtp://relay%2Fuser:s3cr3t@mail.example?tls=opportunistic&hello=codes.example")
	api, err2 := mailapi.ParseURL("resend://:s3cr3t@")
	servertest.OK(t, errors.Join(err, err2))
	nested := struct {
		Relay smtp.Config
		API   mailapi.Config
	}{relay, api}
	var out bytes.Buffer
	for _, v := range []any{relay, &relay, api, &api, nested} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			fmt.Fprintf(&out, format, v)
		}
	}
	for _, v := range []any{relay, api} {
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "config", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "config", v)
	}
	if strings.Contains(out.String(), "s3cr3t") || strings.Contains(out.String(), "AKIA") {
		t.Errorf("a password or a key shows in %s", strings.NewReplacer("s3cr3t", "…", "AKIA", "…").Replace(out.String()))
	}
}

// Within one Send, a mail goes from a closed port of SMTP to a provider, and from a provider to
// SMTP if the mail was certainly not accepted. A mail that the provider refuses for good goes to no
// other server.
func TestFailoverBetweenKinds(t *testing.T) {
	api, relay := mailapitest.Start(t), smtptest.Start(t, smtptest.Script{})
	closed := fmt.Sprint("smtp://127.0.0.1:", servertest.FreePort(t))
	for n, c := range []struct {
		list         string
		then         mailapitest.Step
		class        delivery.ErrorClass
		byAPI, byMTA int
	}{
		{closed + "," + api.URL(), mailapitest.Accepts, "", 1, 0},
		{api.URL() + "," + relay.URL(), mailapitest.Answers(mailapitest.Later), "", 0, 1},
		{closed + "," + api.URL() + "," + relay.URL(), mailapitest.Answers(mailapitest.Later), "", 0, 1},
		{api.URL() + "," + relay.URL(), mailapitest.Answers(mailapitest.Refused), delivery.Rejected, 0, 0},
	} {
		configs, err := mailserver.ParseURLs(c.list, nil)
		servertest.OK(t, err)
		servers, err := mailserver.Open(configs, "")
		servertest.OK(t, err)
		api.Script(c.then)
		mails, relayed := len(api.Mails()), len(relay.Messages())
		_, err = servers.Send(t.Context(), smtptest.Sample(n))
		_ = servers.Close()
		got := delivery.ErrorClass("")
		if fail, ok := err.(*delivery.Error); ok {
			got = fail.Class
		}
		if got != c.class || len(api.Mails())-mails != c.byAPI || len(relay.Messages())-relayed != c.byMTA {
			t.Errorf("%d: %v, %d mails by the API and %d by SMTP", n, err, len(api.Mails())-mails, len(relay.Messages())-relayed)
		}
	}
}
