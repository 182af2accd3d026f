package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/http/api"
	"sendcode/internal/run/app/core"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// The scopes of the file are those of the API.
func TestTheScopesOfTheFile(t *testing.T) {
	var all []string
	for _, s := range api.KeyScopes {
		all = append(all, string(s))
	}
	file := func(scopes ...string) (config.Config, error) {
		yaml := fmt.Sprintf("apps: [{name: a, keys: [{id: k, kind: secret, sha256: %064d, scopes: [%s]}]}]", 1,
			strings.Join(scopes, ", "))
		return config.Load([]string{"SENDCODE_CONFIG=c"}, func(string) ([]byte, error) { return []byte(yaml), nil })
	}
	c, err := file(all...)
	if err != nil || !slices.Equal(apiKeys(c)[0].Scopes, api.KeyScopes) {
		t.Errorf("%v, %v", c.Apps, err)
	}
	if _, err := file("none"); err == nil || !strings.Contains(err.Error(), strings.Join(all[:3], ", ")+" or "+all[3]) {
		t.Errorf("the API knows %v, the file: %v", all, err)
	}
}

// The longest life in the file is the store's; prefixes are watched for as long as text messages'
// codes live.
func TestTheLongestLife(t *testing.T) {
	yaml := "purposes: {x: {kind: confirm, ttl: 24h, code: {length: 8}}}"
	cfg, err := config.Load([]string{"SENDCODE_CONFIG=c"}, func(string) ([]byte, error) { return []byte(yaml), nil })
	if err != nil {
		t.Fatal(err)
	}
	if life := cfg.PolicySet(time.Now()).LongestCodeLife(); life != store.MaxCodeLife {
		t.Errorf("a code lives %v, and the store thinks of %v", life, store.MaxCodeLife)
	}
	cfg.SMS.Carriers = make([]config.SMSCarrier, 1)
	if w := (&App{cfg: cfg}).prefixWatch(); w.TTL != policy.MaxTextLife {
		t.Errorf("watched for %v", w.TTL)
	}
}

// Prefixes are watched where text messages cost money, but for those that the file exempts.
func TestPrefixWatch(t *testing.T) {
	a := &App{cfg: config.Config{}}
	a.cfg.SMS.Unwatched = []string{"+49"}
	if w := a.prefixWatch(); w.MinSends != 0 {
		t.Errorf("the dev mailbox is watched from %d messages on", w.MinSends)
	}
	a.cfg.SMS.Carriers = make([]config.SMSCarrier, 1)
	if w := a.prefixWatch(); w.MinSends != 20 || !w.Exempts("+49151") || w.Exempts("+44740") {
		t.Errorf("%+v", w)
	}
	a.cfg.SMS.Unwatched = []string{"+"}
	if w := a.prefixWatch(); !w.Exempts("+44740") {
		t.Errorf("%+v", w)
	}
}

// Beside a generated secret key, which is so on loopback alone, there is a public key for pages on
// this machine, the same after each start.
func TestAPublicKeyForPagesOnThisMachine(t *testing.T) {
	dir := t.TempDir()
	public := func(dir, yaml string, environ ...string) api.Keys {
		t.Helper()
		c, err := config.Load(append(environ, "SENDCODE_CONFIG=c"),
			func(string) ([]byte, error) { return []byte(yaml), nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.LoadOrCreateSecrets(dir); err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(apiKeys(c), func(k *api.Key) bool { return k.Kind == verification.BackEnd })
	}
	keys, again, another := public(dir, ""), public(dir, ""), public(t.TempDir(), "")
	if len(keys) != 1 || keys[0].App != "default" || !slices.Contains(keys[0].Origins, "http://localhost:3000") ||
		slices.ContainsFunc(keys[0].Origins, func(o string) bool {
			return !strings.HasPrefix(o, "http://localhost:") && !strings.HasPrefix(o, "http://127.0.0.1:")
		}) {
		t.Fatalf("%+v", keys)
	}
	if again[0].SHA256 != keys[0].SHA256 || another[0].SHA256 == keys[0].SHA256 {
		t.Error("the key does not follow from the secret one")
	}
	if shop := public(dir, "apps: [{name: shop, keys: [{id: back, kind: secret, sha256: "+strings.Repeat("1", 64)+
		"}]}]"); len(shop) != 0 {
		t.Errorf("beside another app's key: %+v", shop)
	}
	own := "apps: [{name: default, origins: ['http://localhost:3000'], keys: [{id: web, kind: public, sha256: " +
		strings.Repeat("1", 64) + "}]}]"
	if keys := public(dir, own); len(keys) != 1 || keys[0].ID != "web" {
		t.Errorf("beside an own public key: %+v", keys)
	}
	if keys := public(dir, "", "SENDCODE_API_KEY=sk_0123456789abcdefghijABCDEFGHIJ"); len(keys) != 0 {
		t.Errorf("beside a secret key that was given: %+v", keys)
	}
}

// A stop of the settings ends by itself, without a reload, and each one at its time.
func TestAStopEnds(t *testing.T) {
	yaml := `stop: [{channel: email, until: "2099-01-31T08:00:00Z"}, {channel: sms, until: "2099-01-31T09:00:00Z"}]`
	cfg, err := config.Load([]string{"SENDCODE_CONFIG=c"}, func(string) ([]byte, error) { return []byte(yaml), nil })
	if err != nil {
		t.Fatal(err)
	}
	first := time.Date(2099, 1, 31, 8, 0, 0, 0, time.UTC)
	var log bytes.Buffer
	a := &App{logger: slog.New(slog.NewTextHandler(&log, nil)), core: &core.Core{}}
	a.core.Policy = policy.NewCurrentSet(cfg.PolicySet(time.Now()), time.Now)
	r := &reloader{App: a, current: cfg, ends: cfg.NextStopEnd(time.Now())}
	for _, x := range []struct {
		at           time.Time
		mails, texts bool // are paused
		lines        int
	}{
		{first.Add(-1), true, true, 0}, {first, false, true, 1}, {first.Add(time.Hour - 1), false, true, 1},
		{first.Add(time.Hour), false, false, 2},
		{first.Add(2 * time.Hour), false, false, 2},
	} {
		r.endStops(x.at)
		_, mails := a.core.Policy.Get().Paused(recipient.Email, "default")
		_, texts := a.core.Policy.Get().Paused(recipient.SMS, "default")
		if lines := strings.Count(log.String(), "stop ended"); mails != x.mails || texts != x.texts ||
			lines != x.lines {
			t.Errorf("%v: mails %v, texts %v, %d lines", x.at, mails, texts, lines)
		}
	}
}

// Replicas on one host whose rows are in Postgres share a data directory, and with it the keys that
// they made.
func TestReplicasOnOneHostShareTheSecrets(t *testing.T) {
	dir := t.TempDir()
	replica := func() *App {
		cfg, err := config.Load([]string{"SENDCODE_DATA_DIR=" + dir, "SENDCODE_DATABASE_URL=postgres://h/d"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		a := &App{cfg: cfg}
		if err := a.openDataDir(t.Context()); err != nil {
			t.Fatal(err)
		}
		return a
	}
	one, another := replica(), replica()
	if one.cfg.SecretKeys.Reveal() != another.cfg.SecretKeys.Reveal() ||
		one.cfg.IndexKey.Reveal() != another.cfg.IndexKey.Reveal() || len(one.generated)+len(another.generated) != 0 {
		t.Error("the replicas have other secrets, or some to show")
	}
}
