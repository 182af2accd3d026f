package doctor

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailapi/mailapitest"
	"sendcode/internal/deliver/delivery/oauth"
	"sendcode/internal/deliver/delivery/oauth/oauthtest"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"
)

// dns is a table of DNS records, by type and name. A name that is missing in the table does not
// exist. If a name has nil, the name servers do not answer for it.
type dns map[string][]string

func (d dns) answer(kind, name string) ([]string, error) {
	switch found, known := d[kind+" "+name]; {
	case known && found == nil:
		return nil, &net.DNSError{Err: "server misbehaving", Name: name, IsTemporary: true}
	case known:
		return found, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (d dns) LookupTXT(_ context.Context, name string) ([]string, error) {
	return d.answer("TXT", name)
}
func (d dns) LookupHost(_ context.Context, name string) ([]string, error) { return d.answer("A", name) }

// LookupMX returns hosts of equal preference.
func (d dns) LookupMX(_ context.Context, name string) (all []*net.MX, err error) {
	hosts, err := d.answer("MX", name)
	for _, host := range hosts {
		all = append(all, &net.MX{Host: host})
	}
	return all, err
}
func (d dns) LookupAddr(_ context.Context, a string) ([]string, error) { return d.answer("PTR", a) }

// examine runs the doctor on a configuration, with these DNS records and a clock that is late by
// this duration. It checks whether the doctor finds faults and prints these lines, and returns the
// whole output.
func examine(s *apptest.Stack, names dns, late time.Duration, faulty bool, lines ...string) string {
	s.Helper()
	var out strings.Builder
	d := newDoctor(s.Config(), &out)
	d.resolver, d.now = names, func() time.Time { return time.Now().Add(-late) }
	if err := d.examine(s.Context()); (err != nil) != faulty {
		s.Error(err)
	}
	wantLines(s.T, out.String(), lines...)
	return out.String()
}

func wantLines(t *testing.T, output string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(output, line) {
			t.Errorf("no line has %q in\n%s", line, output)
		}
	}
}

// The doctor compares the clocks of the parts. If a Postgres login has no rights on the tables, the
// doctor mentions the setting that names a role with these rights.
func TestDoctorOnRealParts(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	apptest.Must(t, commands.Migrate(t.Context(), s.Config(), io.Discard))
	const late = 90*time.Second + 500*time.Millisecond
	examine(s, dns{}, 0, false, "✓ clock of Postgres: ", "✓ clock of Redis: ", " ms ",
		"✓ keys: no rows are encrypted yet; the first key is k")
	examine(s, dns{}, late, false, "! clock of Postgres: 90", "! clock of Redis: 90", " ms ahead of this machine's",
		"run NTP on both")
	examine(s, dns{}, -late, false, "! clock of Postgres: 90", " ms behind this machine's")

	s.Postgres.Script(t, t.TempDir(), `psql --quiet --command='CREATE ROLE without_rights LOGIN' "$URL"`, "URL="+s.Postgres.AdminURL())
	at, err := url.Parse(s.Env["SENDCODE_DATABASE_URL"])
	apptest.Must(t, err)
	at.User = url.User("without_rights")
	s.Env["SENDCODE_DATABASE_URL"] = at.String()
	examine(s, dns{}, 0, true, "✗ database: ", "without_rights may not ", "run sendcode migrate", "SENDCODE_DATABASE_ROLE")
}

func TestDoctorSaysHowTheMailServerIsEncrypted(t *testing.T) {
	t.Parallel()
	s := embedded(t)
	for _, c := range []struct {
		script smtptest.Script
		late   time.Duration
		want   string
	}{
		{
			smtptest.Script{TLS: smtptest.STARTTLS},
			0,
			"! TLS of the mail server: TLS 1.3 by STARTTLS; its certificate, of an authority without a name, ends in 23 hours: renew it",
		},
		{
			smtptest.Script{TLS: smtptest.STARTTLS},
			31 * 24 * time.Hour,
			"✓ TLS of the mail server: TLS 1.3 by STARTTLS; its certificate, of an authority without a name, is valid for 31 days",
		},
		{smtptest.Script{TLS: smtptest.Implicit}, 31 * 24 * time.Hour, "✓ TLS of the mail server: TLS 1.3 from the first byte; "},
		{smtptest.Script{}, 0, "✓ TLS of the mail server: none, and none is needed: it is on this machine"},
	} {
		server := smtptest.Start(t, c.script)
		s.Env["SENDCODE_SMTP_URL"] = server.URL()
		examine(s, dns{}, c.late, false, c.want)
	}
	s.Env["SENDCODE_SMTP_URL"] = smtptest.Start(t, smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Mail, Reply: "550 5.7.60 no"})).URL()
	examine(s, dns{}, 0, true, "✗ mail server: ", "mail: rejected: 550 5.7.60: ", "as the sender no-reply@localhost")
	server := smtptest.Start(t, smtptest.Script{TLS: smtptest.STARTTLS})
	s.Env["SENDCODE_SMTP_URL"] = "smtp://" + server.Addr() + "?tls=opportunistic"
	examine(s, dns{}, 0, false, "! TLS of the mail server: TLS 1.3 by STARTTLS, unverified, so an attacker", "unknown authority")
	s.Env["SENDCODE_SMTP_URL"] = "smtp://" + server.Addr() + "?tls=required"
	examine(s, dns{}, 0, true, "✗ mail server: "+server.Addr()+": tls", "certificate") // its certificate is from an unknown authority
}

// The doctor gets a token and logs in. If this fails, the doctor says what is missing or wrong at
// Microsoft, and prints neither the secret nor the token.
func TestDoctorTriesOAuth(t *testing.T) {
	t.Parallel()
	s := embedded(t)
	tokens := oauthtest.Start(t, oauthtest.Gives("t0ken", 3600))
	s.Env["SECRET"] = oauthtest.Secret
	s.Write("oauth: {m365: {token_url: '" + tokens.Client.TokenURL + "', client_id: client, client_secret_env: SECRET, scope: '" +
		oauth.MicrosoftScope + "'}}")
	server := smtptest.Start(t, smtptest.Script{})
	login := func(token string, rules ...smtptest.Rule) {
		server.SetScript(smtptest.Script{
			TLS: smtptest.STARTTLS, Username: "codes@shop.example", Password: token, OAuth: "m365",
			Mechanisms: []string{"LOGIN", "XOAUTH2"}, Rules: rules,
		})
	}
	login("t0ken")
	s.Env["SENDCODE_SMTP_URL"] = server.URL()
	examine(s, dns{}, 0, false, "✓ mail server: "+server.Addr()+
		" answers, and accepts the token of oauth m365; encryption is as configured, and it accepts the senders")
	good, bad := oauthtest.Gives(oauthtest.JWT(`"SMTP.SendAsApp"`), 3600), oauthtest.Gives(oauthtest.JWT(`"Mail.Send"`), 3600)
	refused := func(reply string) smtptest.Rule { return smtptest.Rule{Stage: smtptest.Auth, Reply: reply} }
	for _, c := range []struct {
		answer oauthtest.Answer
		rule   smtptest.Rule
		want   string
	}{
		{oauthtest.Refuses("invalid_request", "90002"), smtptest.Rule{}, "the tenant does not exist"},
		{oauthtest.Refuses("unauthorized_client", "700016"), smtptest.Rule{}, "the app registration is missing in this tenant"},
		{oauthtest.Refuses("invalid_client", "7000222"), smtptest.Rule{}, "the client's secret has expired"},
		{
			bad, refused("535 5.7.3 Authentication unsuccessful"),
			"the API permission SMTP.SendAsApp of Office 365 Exchange Online is missing",
		},
		{good, refused("535 5.7.3 Authentication unsuccessful"), "register the enterprise application there (New-ServicePrincipal)"},
		{good, refused("535 5.7.139 SmtpClientAuthentication is disabled"), "Set-CASMailbox"},
	} {
		tokens.Answer(c.answer)
		login("another", c.rule)
		output := examine(s, dns{}, 0, true, "✗ mail server: "+server.Addr()+": auth: temporary: ", c.want)
		if strings.Contains(output, oauthtest.Secret) || strings.Contains(output, "eyJ") {
			t.Errorf("shows a secret: %s", output)
		}
	}
}

// The doctor also gets tokens with a Google service account, and from a command.
func TestDoctorTriesEachKindOfToken(t *testing.T) {
	t.Parallel()
	s := embedded(t)
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		apptest.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	server := smtptest.Start(t, smtptest.Script{
		TLS: smtptest.STARTTLS, Username: "codes@shop.example", Password: "t0ken", OAuth: "m365",
		Mechanisms: []string{"XOAUTH2"},
	})
	s.Env["SENDCODE_SMTP_URL"], s.Env["SECRET"] = server.URL(), oauthtest.Secret
	for kind, settings := range map[string]string{
		"account": "subject: codes@shop.example, service_account_file: ",
		"command": "command: [echo, t0ken]",
	} {
		tokens := oauthtest.Start(t, oauthtest.Gives("t0ken", 3600)).As(kind)
		if kind == "account" {
			settings += strconv.Quote(file("google.json", oauthtest.Account(tokens.Client.TokenURL)))
		}
		s.Write("oauth: {m365: {" + strings.ReplaceAll(settings, "URL", tokens.Client.TokenURL) + "}}")
		examine(s, dns{}, 0, false, "✓ mail server: "+server.Addr()+" answers, and accepts the token of oauth m365")
	}
}

// The doctor posts a bounce mail to the running service with the secret of the settings. The
// service only counts the mail, as a mail of no send. An answer 401 or 404 is a fault, and so is a
// lost secrets.yaml. It is no fault if the service does not run.
func TestDoctorTriesBounceMails(t *testing.T) {
	t.Parallel()
	s := embedded(t)
	s.Env["SECRET"], s.Env["OTHER"] = "the secret of bounce mails", "another secret of these"
	s.Write("provider_events: [{name: pipe, scheme: dsn, secret_env: SECRET}]").Start(1)
	at := strings.TrimPrefix(s.Replicas[0].Base, "http://")
	for _, c := range []struct{ name, secret, at, line string }{
		{"pipe", "SECRET", at, "✓ bounce mails: the service accepts them at /v1/events/pipe; only a real bounce"},
		{"pipe", "OTHER", at, "✗ bounce mails: http://" + at + "/v1/events/pipe did not accept the secret"},
		{"new", "SECRET", at, "✗ bounce mails: http://" + at + "/v1/events/new does not exist"},
		{"pipe", "SECRET", "127.0.0.1:1", "! bounce mails: not checked, since no service runs at 127.0.0.1:1: start it"},
	} {
		s.Env["SENDCODE_ADDR"] = c.at
		s.Write("provider_events: [{name: " + c.name + ", scheme: dsn, secret_env: " + c.secret + "}]")
		examine(s, dns{}, 0, strings.HasPrefix(c.line, "✗"), c.line)
	}
	servertest.Same(t, "mails of no send", s.Metric(0, `sendcode_provider_events_total{outcome="unknown_message",provider="pipe"}`), "1")
	s.Env["SENDCODE_ADDR"] = at
	apptest.Must(t, os.Remove(filepath.Join(s.Env["SENDCODE_DATA_DIR"], "secrets.yaml")))
	examine(s, dns{}, 0, true, "✗ bounce mails: ", "secrets.yaml is missing")
}

func TestDoctorTriesProvidersOfMails(t *testing.T) {
	t.Parallel()
	s := embedded(t)
	provider := mailapitest.Start(t)
	s.Env["SENDCODE_SMTP_URL"] = provider.URL()
	at, err := url.Parse(provider.URL())
	apptest.Must(t, err)
	provider.Script(mailapitest.Answers(mailapitest.Good[0]))
	examine(s, dns{}, 31*24*time.Hour, false, "✓ mail server: "+at.Host+" answers",
		"✓ TLS of the mail server: TLS 1.3 from the first byte; ")
	provider.Script(mailapitest.Answers(mailapitest.Bad))
	examine(s, dns{}, 0, true, "✗ mail server: "+at.Host+": auth", "the key or the signature is refused")
}

// outputOfMail returns the doctor's lines about the sender domains, the DKIM keys, and the PTR
// records of a configuration, with these DNS records.
func outputOfMail(t *testing.T, cfg config.Config, names dns) string {
	t.Helper()
	var out strings.Builder
	d := newDoctor(cfg, &out)
	d.resolver = names
	d.checkSenderDomains(t.Context())
	d.checkDKIM(t.Context())
	d.checkPTRs(t.Context())
	return out.String()
}

// The doctor checks each domain that the service or an app sends from, except localhost.
func TestDoctorLooksAtTheSendersOfApps(t *testing.T) {
	t.Parallel()
	output := outputOfMail(t, config.Config{
		SMTPURL: "smtp://h", MailFrom: "codes@shop.example", DKIMSelector: "s1",
		Reloadable: config.Reloadable{Apps: []config.App{
			{Name: "news", MailFrom: "News <codes@News.example>"},
			{Name: "same", MailFrom: "other@shop.example"},
			{Name: "here", MailFrom: "a@localhost"},
		}},
	}, dns{"TXT shop.example": {"v=spf1 -all"}, "TXT _dmarc.shop.example": {"v=DMARC1; p=none"}})
	wantLines(t, output, "✓ sender domain: shop.example has SPF and DMARC records, the latter with p=none\n", "! sender domain: news.example has no SPF record",
		"! sender domain: news.example has no DMARC record")
	if strings.Count(output, "s1._domainkey.") != 2 || strings.Count(output, "sender domain: ") != 3 {
		t.Error(output)
	}
}

func TestDoctorOnMailInTheClear(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]delivery.Encryption{
		"! m: none, and the server offers none: every code is sent unencrypted\n": {},
		"! m: none, though the server offers STARTTLS: set tls=required\n":        {Offered: true},
	} {
		var out strings.Builder
		newDoctor(config.Config{}, &out).reportEncryption("m", false, e)
		if out.String() != want {
			t.Errorf("says %q, want %q", out.String(), want)
		}
	}
}

func rsaKey(t *testing.T, bits int) string {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	apptest.Must(t, err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	apptest.Must(t, err)
	return base64.StdEncoding.EncodeToString(der)
}

func TestDoctorLooksAtDKIM(t *testing.T) {
	t.Parallel()
	cfg := config.Config{SMTPURL: "smtp://h", MailFrom: "Shop <codes@shop.example>"}
	wantLines(t, outputOfMail(t, cfg, dns{}),
		"! DKIM: not checked, since the selector is not known: give --dkim-selector; it follows s= in the DKIM-Signature of a received mail")
	cfg.DKIMSelector = "s1"
	const elliptic = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE/TCoES7EsAqj1CGdU58fS1VxeFsm9+WEmJys604pCNfR+j09XRB+kbX4VsUwtS1FwI2w/Z4yD9gZ2EotoW0O/w=="
	good, ed25519 := rsaKey(t, 2048), base64.StdEncoding.EncodeToString(make([]byte, 32))
	for record, want := range map[string]string{
		"v=DKIM1; k=rsa; p=" + good:        "✓ DKIM: s1._domainkey.shop.example has an RSA key of 2048 bits",
		"p=" + good[:60] + " " + good[60:]: "✓ DKIM: s1._domainkey.shop.example has an RSA key of 2048 bits",
		"v=DKIM1; k=ed25519; p=" + ed25519: "✓ DKIM: s1._domainkey.shop.example has an Ed25519 key",
		"v=DKIM1; t=y; p=" + good:          "! DKIM: s1._domainkey.shop.example is marked as a test (t=y): some providers treat its mails as unsigned",
		"v=DKIM1; p=" + rsaKey(t, 1024):    "! DKIM: s1._domainkey.shop.example has an RSA key of 1024 bits; use 2048 bits",
		"v=DKIM1; p=":                      "✗ DKIM: the key at s1._domainkey.shop.example is withdrawn (p= is empty)",
		"v=DKIM1; p=hello":                 "✗ DKIM: the key at s1._domainkey.shop.example cannot be read",
		"v=DKIM1; k=rsa; p=" + elliptic:    "✗ DKIM: the key at s1._domainkey.shop.example cannot be read",
		"v=spf1 -all":                      "✗ DKIM: there is no key at s1._domainkey.shop.example: mails signed with it count as unsigned",
	} {
		wantLines(t, outputOfMail(t, cfg, dns{"TXT s1._domainkey.shop.example": {record}}), want)
	}
	wantLines(t, outputOfMail(t, cfg, dns{"TXT s1._domainkey.shop.example": nil}),
		"! DKIM: the name servers do not answer for s1._domainkey.shop.example")
}

func TestDoctorLooksAtPTRAndTheSendersDomain(t *testing.T) {
	t.Parallel()
	const ip = "203.0.113.5"
	mail := dns{
		"A mail.shop.example": {ip}, "PTR " + ip: {"out.shop.example."}, "A out.shop.example": {ip},
		"TXT shop.example": {"v=spf1 a -all"}, "TXT _dmarc.shop.example": {"v=DMARC1; p=reject"},
	}
	changed := func(key string, value ...string) dns {
		c := maps.Clone(mail)
		if c[key] = value; len(value) == 0 {
			delete(c, key)
		}
		return c
	}
	for want, names := range map[string]dns{
		"✓ PTR: 203.0.113.5 is out.shop.example, which resolves to it":                                                      mail,
		"! PTR: 203.0.113.5, of mail.shop.example, has no PTR record: if mails leave from there, big providers refuse them": changed("PTR " + ip),
		"! PTR: 203.0.113.5 is out.shop.example, which does not resolve to it": changed(
			"A out.shop.example", "203.0.113.9"),
		"! PTR: mail.shop.example is in a private network: check the PTR record of the public address that its mails leave from": changed(
			"A mail.shop.example", "10.1.2.3"),
		"! sender domain: shop.example has no SPF record":    changed("TXT shop.example"),
		"! sender domain: shop.example has no DMARC record":  changed("TXT _dmarc.shop.example"),
		"! PTR: mail.shop.example has no address in the DNS": changed("A mail.shop.example"),
	} {
		wantLines(t, outputOfMail(t, config.Config{SMTPURL: "smtp://mail.shop.example:587", MailFrom: "Shop <codes@shop.example>"}, names), want)
	}
	output := outputOfMail(t, config.Config{SMTPURL: "smtp://h", MailFrom: "Shop <codes@shop.example>"},
		dns{"TXT shop.example": nil, "TXT _dmarc.shop.example": nil, "A h": nil})
	wantLines(t, output, "! sender domain: the name servers do not answer for shop.example", "! PTR: the name servers do not answer for h")
	if strings.Contains(output, "✓ sender domain") {
		t.Error(output)
	}
}

// The doctor reads the records of a sender as receivers do.
func TestDoctorReadsSenderRecordsAsReceiversDo(t *testing.T) {
	t.Parallel()
	const ip, good, dmarc = "203.0.113.5", "v=spf1 ip4:203.0.113.0/24 -all", "v=DMARC1; p=reject"
	includes := dns{}
	for i := range 12 {
		includes[fmt.Sprintf("TXT i%d.example", i)] = []string{fmt.Sprintf("v=spf1 include:i%d.example ?all", i+1)}
	}
	for name, c := range map[string]struct {
		spf, dmarc []string
		more       dns
		want       string
	}{
		"good":                       {[]string{good}, []string{dmarc}, nil, "✓ sender domain: mail.shop.example has SPF and DMARC records, the latter with p=reject\n"},
		"beside other records":       {[]string{"google-site-verification=x", "spf2.0/pra -all", good}, []string{"x", dmarc}, nil, "✓ sender domain: mail.shop.example has SPF"},
		"by the address of a name":   {[]string{"v=spf1 a:mail.shop.example ~all"}, []string{dmarc}, nil, "✓ sender domain"},
		"by an MX":                   {[]string{"V=SPF1 mx -all"}, []string{dmarc}, dns{"MX mail.shop.example": {"mail.shop.example."}, "A mail.shop.example.": {ip}}, "✓ sender domain"},
		"by an include":              {[]string{"v=spf1 include:_spf.example -all"}, []string{dmarc}, dns{"TXT _spf.example": {good}}, "✓ sender domain"},
		"two SPF records":            {[]string{good, "v=spf1 mx -all"}, []string{dmarc}, nil, "✗ sender domain: mail.shop.example has 2 SPF records, so receivers use none"},
		"no blank after the version": {[]string{"v=spf1;ip4:203.0.113.0/24 -all"}, []string{dmarc}, nil, `✗ sender domain: mail.shop.example has a record that is nearly one of SPF`},
		"quotes in the record":       {[]string{`"v=spf1 -all"`}, []string{dmarc}, nil, "is nearly one of SPF"},
		"a mechanism that is none":   {[]string{"v=spf1 ipv4:203.0.113.5 -all"}, []string{dmarc}, nil, "✗ sender domain: receivers can't evaluate the SPF record of mail.shop.example"},
		"an address that is none":    {[]string{"v=spf1 ip4:203.0.113.500 -all"}, []string{dmarc}, nil, "✗ sender domain: receivers can't evaluate"},
		"more than ten lookups":      {[]string{"v=spf1 include:i0.example -all"}, []string{dmarc}, includes, "✗ sender domain: receivers can't evaluate the SPF record of mail.shop.example: lookup limit reached"},
		"an include of nothing":      {[]string{"v=spf1 include:gone.example -all"}, []string{dmarc}, nil, "✗ sender domain: receivers can't evaluate"},
		"everybody":                  {[]string{"v=spf1 +all"}, []string{dmarc}, nil, "✗ sender domain: the SPF record of mail.shop.example lets every address send"},
		"no end":                     {[]string{"v=spf1 ip4:203.0.113.5"}, []string{dmarc}, nil, "! sender domain: the SPF record of mail.shop.example does not say what to do with mails from other servers"},
		"another address":            {[]string{"v=spf1 ip4:198.51.100.7 -all"}, []string{dmarc}, nil, "! sender domain: the SPF record of mail.shop.example does not allow 203.0.113.5, of mail.shop.example (fail)"},
		"the servers are silent":     {[]string{"v=spf1 include:silent.example -all"}, []string{dmarc}, dns{"TXT silent.example": nil}, "! sender domain: the name servers do not answer for a name"},
		"two DMARC records":          {[]string{good}, []string{dmarc, "v=DMARC1; p=none"}, nil, "✗ sender domain: _dmarc.mail.shop.example has 2 DMARC records"},
		"of the organization":        {[]string{good}, nil, dns{"TXT _dmarc.shop.example": {"v=DMARC1; p=reject; sp=quarantine"}}, "records, the latter with sp=quarantine of shop.example\n"},
		"p of the organization":      {[]string{good}, nil, dns{"TXT _dmarc.shop.example": {"v=DMARC1;p=reject"}}, "records, the latter with p=reject of shop.example\n"},
		"no DMARC record":            {[]string{good}, nil, nil, "! sender domain: mail.shop.example has no DMARC record"},
		"small letters":              {[]string{good}, []string{"v=dmarc1; p=reject"}, nil, "✗ sender domain: _dmarc.mail.shop.example has a record that is none of DMARC"},
		"no policy":                  {[]string{good}, []string{"v=DMARC1; rua=mailto:a@b.example"}, nil, "✗ sender domain: the DMARC record at _dmarc.mail.shop.example has no valid policy"},
		"a policy that is none":      {[]string{good}, []string{"v=DMARC1; p=rejct"}, nil, "has no valid policy"},
		"blanks within DMARC":        {[]string{good}, []string{"v = DMARC1 ; p = quarantine ;"}, nil, "the latter with p=quarantine\n"},
	} {
		names := dns{"A mail.shop.example": {ip}, "TXT mail.shop.example": c.spf}
		if c.dmarc != nil {
			names["TXT _dmarc.mail.shop.example"] = c.dmarc
		}
		maps.Copy(names, c.more)
		output := outputOfMail(t, config.Config{SMTPURL: "smtp://mail.shop.example:587", MailFrom: "Shop <codes@mail.shop.example>"}, names)
		if !strings.Contains(output, c.want) || strings.HasPrefix(c.want, "✗") && strings.Contains(output, "✓ sender domain") {
			t.Errorf("%s: not %q but\n%s", name, c.want, output)
		}
	}
}

// The doctor says nothing about DKIM, PTR records and clocks if no mail server and no other server
// is configured. It warns of a generated key, because other machines could use the key through a
// proxy that adds no header.
func TestDoctorWithNothingConfigured(t *testing.T) {
	t.Parallel()
	s := embedded(t)
	const warning = "! keys: no app has a configured secret key"
	output := examine(s, dns{}, 0, false)
	for _, never := range []string{"PTR", "DKIM", "clock of", warning} {
		if strings.Contains(output, never) {
			t.Errorf("it says %q: %s", never, output)
		}
	}
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "✓ ") && !strings.HasPrefix(line, "! ") {
			t.Errorf("a line %q", line)
		}
	}
	delete(s.Env, "SENDCODE_API_KEY")
	examine(s, dns{}, 0, false, warning, "before other machines can reach 127.0.0.1:0, give SENDCODE_API_KEY")
	s.Env["SENDCODE_TRUSTED_PROXIES"] = "127.0.0.1"
	output = examine(s, dns{}, 0, false, "! settings: No app has a secret key", "sendcode key")
	if strings.Contains(output, warning) {
		t.Errorf("nothing is generated: %s", output)
	}
}

// The doctor asks through a proxy with the admin token, and says which address arrives.
func TestDoctorAsksThroughAProxy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trusted, header, sent, line string
	}{
		"as it should be": {
			"127.0.0.1", "X-Forwarded-For", "198.51.100.7",
			"✓ proxy: a request through 127.0.0.1:%s arrives from 198.51.100.7;",
		},
		"another header": {
			"127.0.0.1", "X-Real-Ip", "198.51.100.7",
			"✗ proxy: all clients count as 127.0.0.1, which sends no X-Forwarded-For; a header that it sends: X-Real-Ip",
		},
		"no header": {
			"127.0.0.1", "X-Nothing", "",
			"✗ proxy: all clients count as 127.0.0.1, which sends no X-Forwarded-For; a header that it sends: none",
		},
		"not trusted": {
			"192.0.2.1", "X-Forwarded-For", "198.51.100.7",
			"✗ proxy: all clients count as 127.0.0.1, which is not in SENDCODE_TRUSTED_PROXIES",
		},
		"nothing says a proxy": {"192.0.2.1", "X-Nothing", "", "✓ proxy: a request through 127.0.0.1:%s arrives from 127.0.0.1;"},
		"another token": {
			"127.0.0.1", "Authorization", "Bearer another",
			"✗ proxy: 127.0.0.1:%s answers 401 to GET /v1/admin/client",
		},
	} {
		s := apptest.Embedded(t)
		s.Env["SENDCODE_ADMIN_TOKEN"], s.Env["SENDCODE_TRUSTED_PROXIES"] = apptest.Token, c.trusted
		s.Env["SENDCODE_ADMIN_ADDR"] = "127.0.0.1:0" // no proxy leads to it
		s.Start(1)
		to, err := url.Parse(s.Replicas[0].Base)
		apptest.Must(t, err)
		proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Set(c.header, c.sent)
		}})
		t.Cleanup(proxy.Close)
		var out strings.Builder
		cfg := s.Config()
		cfg.BehindURL = proxy.URL
		d := newDoctor(cfg, &out)
		d.runCheck(t.Context(), "proxy", d.checkProxy)
		_, port, _ := strings.Cut(strings.TrimPrefix(proxy.URL, "http://"), ":")
		if want := strings.ReplaceAll(c.line, "%s", port); !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: %s, want %s", name, out.String(), want)
		}
	}
}

func TestDescribeRowsByKey(t *testing.T) {
	for want, of := range map[string]struct {
		counts map[string]int
		all    bool
	}{
		"no rows are encrypted yet; the first key is k2":           {nil, true},
		"no rows were counted in time; the first key is k2":        {nil, false},
		"rows by key, with the first key k2: k1 3, k2 5":           {map[string]int{"k1": 3, "k2": 5}, true},
		"rows by key, with the first key k2: k1 3, k2 5, and more": {map[string]int{"k1": 3, "k2": 5}, false},
	} {
		if got := describeRowsByKey("k2", of.counts, of.all); got != want {
			t.Errorf("says %q, want %q", got, want)
		}
	}
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	for text, right := range map[string]bool{
		"s1": true, "a.b-c": true, strings.Repeat("a", 63): true, "": false, "s1._domainkey": false, "-a": false,
		"a.": false, strings.Repeat("a", 64): false,
	} {
		if err := ValidateSelector(text); (err == nil) != right {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// If a driver reports two tries in the same words, the doctor prints them once.
func TestUniqueLines(t *testing.T) {
	for text, want := range map[string]string{
		"failed to connect:\n\t127.0.0.1:1: refused\n\t127.0.0.1:1: refused": "failed to connect: 127.0.0.1:1: refused",
		"one line": "one line", "a\nb": "a b",
	} {
		if got := uniqueLines(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
