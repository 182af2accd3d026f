package smtp_test

import (
	"fmt"
	"strings"
	"testing"

	"sendcode/internal/deliver/delivery/smtp"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]smtp.Config{
		"smtp://mail.example":                         {Host: "mail.example"},
		"smtp://u:p@mail.example?hello=codes.example": {Host: "mail.example", Username: "u", Password: "p", Hello: "codes.example"},
		"smtp://mail.example?conns=1000&conns_min=9":  {Host: "mail.example", MaxConns: 1000, MinConns: 9},
		"smtp://mail.example?per_minute=1000000":      {Host: "mail.example", PerMinute: 1000000},
		"smtp://u:p@mail.example?auth=login":          {Host: "mail.example", Username: "u", Password: "p", Mechanism: "LOGIN"},
		"smtp://u%40x:p%2Fq%3A%2C@mail.example":       {Host: "mail.example", Username: "u@x", Password: "p/q:,"},
		"smtp://u%40x@mail.example?oauth=m365":        {Host: "mail.example", Username: "u@x", OAuth: "m365"},
		"smtps://mail.example":                        {Host: "mail.example", TLS: smtp.TLSImplicit},
		"smtp://mail.example?tls=opportunistic":       {Host: "mail.example", TLS: smtp.TLSOpportunistic},
		"smtp://127.0.0.1:1025":                       {Host: "127.0.0.1", Port: 1025, TLS: smtp.TLSNone},
		"smtp://LOCALHOST":                            {Host: "LOCALHOST", TLS: smtp.TLSNone},
		"smtp://[::1]:25":                             {Host: "::1", Port: 25, TLS: smtp.TLSNone},
		"smtp://localhost?tls=required":               {Host: "localhost"},
		"smtp://u:p@[2001:db8::1]:587?tls=opportunistic": {
			Host: "2001:db8::1", Port: 587, TLS: smtp.TLSOpportunistic, Username: "u",
			Password: "p",
		},
	} {
		got, err := smtp.ParseURL(text)
		if err != nil || fmt.Sprintf("%#v", fieldsOf(got)) != fmt.Sprintf("%#v", fieldsOf(want)) {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}

// fieldsOf returns the fields that a URL sets, with the password, which String would mask.
func fieldsOf(c smtp.Config) []any {
	return []any{c.Host, c.Port, c.TLS, c.Username, c.Password, c.Mechanism, c.OAuth, c.Hello, c.RootCAs != nil, c.MaxConns, c.MinConns}
}

func TestParseURLRefuses(t *testing.T) {
	const secret = "s3cr3t"
	for reason, texts := range map[string][]string{
		"scheme":    {"http://mail.example"},
		"malformed": {"smtp://user:" + secret + "#x@mail.example", "smtp://user:" + secret + "\n@mail.example"},
		// for "", the message names one of several reasons
		"":                  {"mail.example:587", "smtp://user:" + secret + "/x@mail.example"},
		"host":              {"smtp://"},
		"port":              {"smtp://mail.example:0", "smtp://mail.example:65536"},
		"must be":           {"smtp://mail.example/inbox"},
		"tls must be":       {"smtp://mail.example?tls=maybe"},
		"unknown parameter": {"smtp://mail.example?TLS=none", "smtp://user:" + secret + "@mail.example?x=" + secret},
		"twice":             {"smtp://mail.example?tls=a&tls=b"},
		"smtps":             {"smtps://mail.example?tls=required"},
		"EHLO":              {"smtp://mail.example?hello=a%0Ab"},
		"conns":             {"smtp://mail.example?conns=0", "smtp://mail.example?conns=1001"},
		"conns_min":         {"smtp://mail.example?conns_min=0"},
		"per_minute":        {"smtp://mail.example?per_minute=0", "smtp://mail.example?per_minute=1000001"},
		"conns_min is more": {"smtp://mail.example?conns=2&conns_min=3"},
		"ca:":               {"smtp://mail.example?ca=missing.pem"},
		"no certificate":    {"smtp://mail.example?ca=/dev/null"},
		"or neither":        {"smtp://user@mail.example", "smtp://:" + secret + "@mail.example"},
		"unencrypted":       {"smtp://user:" + secret + "@mail.example?tls=none", "smtp://user@mail.example?tls=none&oauth=m365"},
		"oauth needs": {
			"smtp://mail.example?oauth=m365", "smtp://user:" + secret + "@mail.example?oauth=m365",
			"smtp://user@mail.example?oauth=m365&auth=plain", "smtp://us%01er@mail.example?oauth=m365",
		},
	} {
		for _, text := range texts {
			_, err := smtp.ParseURL(text)
			if err == nil || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), secret) {
				t.Errorf("%q: %v", strings.ReplaceAll(text, secret, "…"), err)
			}
		}
	}
}
