package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/document"
	"sendcode/quota"
)

// No file makes the loader panic. An accepted file has the properties on which other packages rely.
// It is printed as a file that is accepted again.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"", read(f, "testdata/full.yaml"), "\xff", "trusted_proxies: [::1, 10.0.0.1/8]",
		"apps: [{name: default, keys: [{id: a, kind: secret, sha256: " + strings.Repeat("ab", 32) + "}]}]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, yaml string) {
		c, err := loadYAML(yaml)
		if err != nil {
			var all *document.Errors
			if !errors.As(err, &all) || len(all.Mistakes) == 0 {
				t.Fatalf("an error without a mistake: %v", err)
			}
			if n := strings.Count(err.Error(), "\n  - "); n != len(all.Mistakes) {
				t.Fatalf("%d mistakes in %d lines", len(all.Mistakes), n)
			}
			return
		}
		for _, p := range c.Purposes {
			rules, found := c.Policies[p.PolicyName]
			var plain []quota.Rule
			for _, r := range rules {
				plain = append(plain, r.quotaRule(r.Name, r.Scope))
			}
			if !found || !limitsRecipients(rules) || quota.Validate(plain) != nil || p.TTL < 30*time.Second || p.TTL > 24*time.Hour ||
				p.TTL > 10*time.Minute && p.Kind != "confirm" || p.Kind == "confirm" && p.Code.Length < 8 ||
				p.Code.Length < 6 || p.Code.Length > 10 {
				t.Fatalf("accepted %+v", p)
			}
		}
		found := slices.ContainsFunc(c.Apps, func(a App) bool { return a.Name == c.Page.App })
		if c.Page.App != "" && !found || c.Apps[0].Name != defaultApp {
			t.Fatalf("accepted page %q of apps %v", c.Page.App, c.Apps)
		}
		if !strings.Contains(c.YAML(), maskStars) {
			readBack(t, c)
		}
	})
}

// No environment makes the loader panic. If an accepted environment lets other machines reach the
// service, it has the keys and a mail server.
func FuzzEnviron(f *testing.F) {
	f.Add("SENDCODE_DATABASE_URL=postgres://h1,h2:1/x?a=b&c\nSENDCODE_MAIL_FROM=a <b@c>\nSENDCODE_INDEX_KEY==")
	f.Add("SENDCODE_ADMIN_PASSWORD_HASH=" + goodHash + "\nSENDCODE_SECRET_KEYS=" + goodRing)
	f.Fuzz(func(t *testing.T, lines string) {
		c, err := Load(strings.Split(lines, "\n"), files{}.read)
		if err == nil && !c.Loopback() && (!c.SecretKeys.IsSet() || !c.IndexKey.IsSet() || !c.APIKey.IsSet() || c.SMTPURL == "") {
			t.Fatal("others can reach a server without secrets of its own")
		}
		_ = c.YAML()
	})
}
