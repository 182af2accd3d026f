package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/http/api"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/core"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// The file and the API accept the same scopes.
func TestTheScopesOfTheFile(t *testing.T) {
	var all []string
	for _, s := range keyScopes {
		all = append(all, string(s))
	}
	file := func(scopes string) string {
		return fmt.Sprintf("apps: [{name: a, keys: [{id: k, kind: secret, sha256: %064d, scopes: [%s]}]}]", 1, scopes)
	}
	keys := apiKeys(loadConfig(t, file(strings.Join(all, ", "))))
	if i := slices.IndexFunc(keys, func(k *api.Key) bool { return k.ID == "k" }); !slices.Equal(keys[i].Scopes, keyScopes) {
		t.Errorf("%v, want %v", keys[i].Scopes, all)
	}
	_, err := config.Load([]string{"SENDCODE_CONFIG_YAML=" + file("none")}, nil)
	if err == nil || !strings.Contains(err.Error(), strings.Join(all[:3], ", ")+" or "+all[3]) {
		t.Errorf("the API knows %v, the file: %v", all, err)
	}
}

// A key is for known people only if the file says so, and a public key never is.
func TestTheTrustOfTheFile(t *testing.T) {
	for line, known := range map[string]bool{"secret": false, "secret, trust: known": true, "public": false} {
		cfg := loadConfig(t, fmt.Sprintf("apps: [{name: a, keys: [{id: k, kind: %s, sha256: %064d}]}]", line, 1))
		keys := apiKeys(cfg)
		if i := slices.IndexFunc(keys, func(k *api.Key) bool { return k.ID == "k" }); keys[i].Known != known {
			t.Errorf("%s: known %v", line, keys[i].Known)
		}
	}
}

// The file may not give a key the ID of the page's key.
func TestTheIDOfThePagesKey(t *testing.T) {
	id := api.NewPageKey("a", verification.PageOffer{}).ID
	file := fmt.Sprintf("apps: [{name: a, keys: [{id: %s, kind: public, sha256: %064d}]}]", id, 1)
	_, err := config.Load([]string{"SENDCODE_CONFIG_YAML=" + file}, nil)
	if err == nil || !strings.Contains(err.Error(), "choose another") {
		t.Errorf("%s: %v", id, err)
	}
}

// An app with a page has a key for its page, which allows what the page offers. If only this
// machine reaches the service, all apps have a page. Otherwise only the app of the page and apps
// with return URLs have one.
func TestWhichAppsHaveAPage(t *testing.T) {
	const apps = "apps: [{name: shop, return_urls: ['https://shop.example/'], page_purposes: [gift]}, {name: gym}]\npurposes: {gift: {}}\n"
	type pageOf struct{ app, channels, purposes string }
	has := func(what string, cfg config.Config, want ...pageOf) {
		t.Helper()
		var got []pageOf
		for _, k := range apiKeys(cfg) {
			if k.Own != nil {
				got = append(got, pageOf{k.App, fmt.Sprint(k.Own.Channels), fmt.Sprint(k.Own.Purposes)})
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%s: pages %v, want %v", what, got, want)
		}
		for i := range want {
			servertest.Same(t, fmt.Sprintf("%s, page %d", what, i+1), got[i], want[i])
		}
	}
	cfg := loadConfig(t, apps)
	has("on this machine", cfg,
		pageOf{"default", "[]", "[default]"}, pageOf{"shop", "[]", "[default gift]"}, pageOf{"gym", "[]", "[default]"})
	cfg.Addr = ":8080"
	has("on a network", cfg, pageOf{"default", "[]", "[default]"}, pageOf{"shop", "[]", "[default gift]"})
	has("with channels", loadConfig(t, apps+"page: {channels: [email]}"),
		pageOf{"default", "[email]", "[default]"}, pageOf{"shop", "[email]", "[default gift]"}, pageOf{"gym", "[email]", "[default]"})
	has("without a page", loadConfig(t, apps+"page: {app: ''}"))
}

const longLife = "purposes: {x: {kind: confirm, ttl: 24h, code: {length: 8}}}"

// The longest life that the settings allow is store.MaxCodeLife.
func TestMaxCodeLifeIsThatOfTheSettings(t *testing.T) {
	if life := loadConfig(t, longLife).PolicySet(time.Now()).LongestCodeLife(); life != store.MaxCodeLife {
		t.Errorf("a code lives %v, and the store thinks of %v", life, store.MaxCodeLife)
	}
}

// Prefixes are watched if text messages cost money, for as long as their codes live, except
// prefixes that the file exempts.
func TestPrefixWatch(t *testing.T) {
	a := &App{cfg: loadConfig(t, longLife)}
	a.cfg.SMS.Unwatched = []string{"+49"}
	if w := a.prefixWatch(); w.MinSends != 0 {
		t.Errorf("the dev mailbox is watched from %d messages on", w.MinSends)
	}
	a.cfg.SMS.Carriers = make([]config.SMSCarrier, 1)
	if w := a.prefixWatch(); w.MinSends != 20 || w.TTL != policy.MaxTextLife || !w.Exempts("+49151") || w.Exempts("+44740") {
		t.Errorf("%+v", w)
	}
	a.cfg.SMS.Unwatched = []string{"+"}
	if w := a.prefixWatch(); !w.Exempts("+44740") {
		t.Errorf("%+v", w)
	}
	b := loadConfig(t, "sms: {watch: {sends: 5}}\napps: [{name: shop, sms_watch: {approved_percent: 30}}, {name: gym}]")
	apps := b.PolicySet(time.Now()).Apps
	for i, of := range [][2]store.PrefixWatch{
		{b.SMS.Watch.PrefixWatch(), {MinSends: 5, MinApprovedPercent: 10}},
		{apps["shop"].Watch, {MinSends: 5, MinApprovedPercent: 30}},
		{apps["gym"].Watch, {}},
	} {
		if !reflect.DeepEqual(of[0], of[1]) {
			t.Errorf("%d: %+v, want %+v", i, of[0], of[1])
		}
	}
}

// With a generated secret key there is a public key for pages on this machine. It follows from the
// secret key, so it stays the same at each start.
func TestAPublicKeyForPagesOnThisMachine(t *testing.T) {
	public := func(dir string, environ ...string) api.Keys {
		t.Helper()
		c := loadConfig(t, "", environ...)
		_, err := c.LoadOrCreateSecrets(dir)
		servertest.OK(t, err)
		return slices.DeleteFunc(apiKeys(c), func(k *api.Key) bool { return k.Kind == verification.BackEnd || k.Own != nil })
	}
	dir := t.TempDir()
	keys, again, another := public(dir), public(dir), public(t.TempDir())
	if len(keys) != 1 || keys[0].App != "default" || !slices.Contains(keys[0].Origins, "http://localhost:3000") ||
		slices.ContainsFunc(keys[0].Origins, func(o string) bool {
			return !strings.HasPrefix(o, "http://localhost:") && !strings.HasPrefix(o, "http://127.0.0.1:")
		}) {
		t.Fatalf("%+v", keys)
	}
	if again[0].SHA256 != keys[0].SHA256 || another[0].SHA256 == keys[0].SHA256 {
		t.Error("the key does not follow from the secret one")
	}
	if keys := public(dir, "SENDCODE_API_KEY=sk_0123456789abcdefghijABCDEFGHIJ"); len(keys) != 0 {
		t.Errorf("beside a secret key that was given: %+v", keys)
	}
}

// A pause in the settings ends by itself, without a reload, at its own time.
func TestEndStopsAtItsTime(t *testing.T) {
	cfg := loadConfig(t, `stop: [{channel: email, until: "2099-01-31T08:00:00Z"}, {channel: sms, until: "2099-01-31T09:00:00Z"}]`)
	first := time.Date(2099, 1, 31, 8, 0, 0, 0, time.UTC)
	var log bytes.Buffer
	a := &App{logger: slog.New(slog.NewTextHandler(&log, nil)), core: &core.Core{}}
	a.core.Policy = policy.NewCurrentSet(cfg.PolicySet(time.Now()), time.Now)
	r := &reloader{App: a, current: cfg, ends: cfg.NextStopEnd(time.Now())}
	for _, x := range []struct {
		at           time.Time
		mails, texts bool // whether they are paused
		lines        int
	}{
		{first.Add(-1), true, true, 0},
		{first, false, true, 1},
		{first.Add(time.Hour - 1), false, true, 1},
		{first.Add(time.Hour), false, false, 2},
		{first.Add(2 * time.Hour), false, false, 2},
	} {
		r.endStops(x.at)
		_, mails := a.core.Policy.Get().Paused(recipient.Email, "default")
		_, texts := a.core.Policy.Get().Paused(recipient.SMS, "default")
		if lines := strings.Count(log.String(), "stop ended"); mails != x.mails || texts != x.texts || lines != x.lines {
			t.Errorf("%v: mails %v, texts %v, %d lines", x.at, mails, texts, lines)
		}
	}
}

// Replicas on one host with their rows in Postgres share a data directory, and therefore the keys
// that they generated.
func TestReplicasOnOneHostShareTheSecrets(t *testing.T) {
	cfg := loadConfig(t, "", "SENDCODE_DATABASE_URL=postgres://h/d", "SENDCODE_DATA_DIR="+t.TempDir())
	one, another := &App{cfg: cfg}, &App{cfg: cfg}
	servertest.OK(t, one.loadSecrets())
	servertest.OK(t, another.loadSecrets())
	if one.cfg.SecretKeys.Reveal() != another.cfg.SecretKeys.Reveal() ||
		one.cfg.IndexKey.Reveal() != another.cfg.IndexKey.Reveal() || len(one.generated)+len(another.generated) != 0 {
		t.Error("the replicas have other secrets, or some to show")
	}
}

var keyScopes = []api.KeyScope{api.KeyScopeSend, api.KeyScopeCheck, api.KeyScopeRead, api.KeyScopeLimit}
