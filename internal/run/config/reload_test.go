package config

import (
	"fmt"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
)

// WithReloadable takes over the settings that a reload can change. The others need a restart, also
// a password inside a URL, although the printed forms are equal.
func TestWithReloadable(t *testing.T) {
	c, next := must(t, ""), must(t, read(t, "testdata/full.yaml"))
	got := c.WithReloadable(next)
	wantEqual(t, "what changes", strings.Join(c.ReloadableChanges(got), " "), "policies limits purposes apps breaker stop "+
		"retention requests_per_minute failed_checks_per_hour disposable_domains webhook_networks")
	wantEqual(t, "what is left to change", got.ReloadableChanges(next), nil)
	wantEqual(t, "what changes at once alone", c.RestartChanges(got), nil)
	wantEqual(t, "what needs a restart", strings.Join(got.RestartChanges(next), " "),
		"SENDCODE_ADDR SENDCODE_ADMIN_ADDR SENDCODE_PUBLIC_URL SENDCODE_DRAIN SENDCODE_DATA_DIR "+
			"SENDCODE_DATABASE_URL SENDCODE_DATABASE_ROLE SENDCODE_REDIS_URL SENDCODE_SMTP_URL oauth SENDCODE_MAIL_FROM "+
			"SENDCODE_LOG_LEVEL templates trusted_proxies folding sms page admin")
	secrets := with(reachable[1:6], "SENDCODE_ADMIN_TOKEN=twenty-characters-ok", "SENDCODE_METRICS_TOKEN=twenty-characters-ok",
		"SENDCODE_OIDC_CLIENT_SECRET=x", "SENDCODE_WEBHOOK_SECRETS=default:"+hookOne)
	wantEqual(t, "secrets", strings.Join(c.RestartChanges(must(t, "", secrets...)), " "),
		"SENDCODE_SMTP_URL SENDCODE_SECRET_KEYS SENDCODE_INDEX_KEY "+
			"SENDCODE_ADMIN_PASSWORD_HASH SENDCODE_ADMIN_TOKEN SENDCODE_METRICS_TOKEN SENDCODE_OIDC_CLIENT_SECRET")
	withPassword := func(password string) Config {
		return must(t, "", "SENDCODE_DATABASE_URL=postgres://u:"+password+"@h/d")
	}
	wantEqual(t, "a password", withPassword("one").RestartChanges(withPassword("two")), []string{"SENDCODE_DATABASE_URL"})
	of := func(yaml string) Config {
		return must(t, "test_recipients: [{to: a@b.example, code: '123456', expires: "+yaml+"}]")
	}
	wantEqual(t, "what is not printed", of("2098-01-31").ReloadableChanges(of("2099-01-31")), []string{"test_recipients"})
}

// A reload is refused if it would leave the page without its app, or a hook without its app or
// purpose or with a human check, or test recipients that the folding of the start changes.
func TestCheckKept(t *testing.T) {
	const hook = "hooks: [{name: auth, server: supabase-email, secret_env: SUPABASE, app: auth, purposes: {signup: gift}}]\n"
	before := must(t, "page: {app: shop}\n"+hook+"apps: [{name: shop}, {name: auth}]\npurposes: {gift: {}}", "SUPABASE=v1,"+hookOne)
	for yaml, want := range map[string]string{
		"apps: [{name: shop}, {name: auth}]\npurposes: {gift: {}}": "<nil>", "apps: [{name: auth}]\npurposes: {gift: {}}": "page.app is shop until",
		"apps: [{name: shop}, {name: auth}]":         "the hook auth uses the app auth and its purposes until",
		"apps: [{name: shop}]\npurposes: {gift: {}}": "the hook auth uses",

		"apps: [{name: shop, human_check: {by: work}}, {name: auth}]\npurposes: {gift: {}}": "<nil>",
		"apps: [{name: shop}, {name: auth, human_check: {by: work}}]\npurposes: {gift: {}}": "the hook auth sends for the app auth until",
		"apps: [{name: shop}, {name: auth}]\npurposes: {gift: {}}\nfolding: {gmail.com: [exact]}\n" +
			"test_recipients: [{to: a.b@gmail.com, code: '123456', expires: 2099-01-31}]": "folding is that of the start until",
	} {
		if err := before.WithReloadable(must(t, yaml)).CheckKept(); !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", yaml, err)
		}
	}
}

// The generated key of the app default stays until the app has another key for back ends. Then the
// generated key ends, and with it the public key for pages on this machine.
func TestReloadedKeys(t *testing.T) {
	c := must(t, "")
	_, err := c.LoadOrCreateSecrets(t.TempDir())
	servertest.OK(t, err)
	for key, next := range map[string]Config{
		c.APIKey.Reveal(): must(t, ""), goodKey: must(t, "", "SENDCODE_API_KEY="+goodKey),
		"sk_own": must(t, fmt.Sprintf("apps: [{name: default, keys: [{id: a, kind: secret, sha256: %x}]}]", sumOf("sk_own"))),
	} {
		renewed := c.WithReloadable(next)
		if keys := renewed.Apps[0].Keys; len(keys) != 1 || keys[0].SHA256 != sumOf(key) {
			t.Errorf("%s: %+v", key, keys)
		}
		wantEqual(t, key+": public key for pages on this machine", renewed.LocalPublicKey != "", key == c.APIKey.Reveal())
		wantEqual(t, key+": changes", len(c.ReloadableChanges(renewed)) > 0, key != c.APIKey.Reveal())
	}
	public := must(t, fmt.Sprintf("apps: [{name: default, keys: [{id: a, kind: public, sha256: %x}]}]", sumOf("pk_own")))
	wantEqual(t, "keys beside one for browsers", len(c.WithReloadable(public).Apps[0].Keys), 2)
}

// A reload is refused if the file is empty, cut off, or another installation's. What an operator
// changes on purpose is accepted.
func TestCheckNothingLost(t *testing.T) {
	key := func(id, value string) string {
		return fmt.Sprintf("{id: %s, kind: %s, sha256: %x}", id, map[string]string{"sk": "secret", "pk": "public"}[value[:2]], sumOf(value))
	}
	apps := func(of ...string) (text string) { // name, then keys
		for _, app := range of {
			name, keys, _ := strings.Cut(app, " ")
			text += "  - name: " + name + "\n    keys: [" + keys + "]\n"
		}
		return "apps:\n" + text
	}
	const rules = "policies:\n  default:\n    - {name: five, scope: recipient, limit: 5, window: 1h}\n"
	shop, bank := "shop "+key("k1", "sk_shop"), "bank "+key("k1", "sk_bank")+", "+key("p1", "pk_bank")
	before := rules + apps(shop, bank) + "disposable_domains: /list\n"
	for name, of := range map[string]struct{ before, next, want string }{
		"nothing":                       {before, "", "the file has no setting"},
		"blanks":                        {before, " \n  \n", "the file has no setting"},
		"comments":                      {before, "# apps:\n#  - name: shop\n", "the file has no setting"},
		"a byte order mark":             {before, "\ufeff", "the file has no setting"},
		"a null":                        {before, "null\n", "the file has no setting"},
		"the beginning of a document":   {before, "---\n", "the file has no setting"},
		"an empty mapping":              {before, "{}", "the file has no setting"},
		"rules without a key":           {rules + "stop: [{channel: email, reason: x}]\n", "# later\n", "the file has no setting"},
		"no app":                        {before, rules + "apps: []\n", "apps: the file has no key"},
		"apps without a value":          {before, rules + "apps:\n", "apps: the file has no key"},
		"apps without keys":             {before, rules + "apps: [{name: shop}, {name: bank}]\n", "apps: the file has no key"},
		"keys that are null":            {before, rules + "apps: [{name: shop, keys: }]\n", "apps: the file has no key"},
		"only a key of browsers":        {before, rules + apps("bank "+key("p1", "pk_bank")), "apps: no app has a secret key"},
		"another installation's keys":   {before, rules + apps("shop "+key("k2", "sk_other")), "apps: the file has none of the keys"},
		"the end is cut":                {before, rules + apps(shop), "the file is only the beginning"},
		"a line is cut":                 {before, rules + apps(shop, bank) + "disposable_domains: /lis", "disposable_domains: /lis cannot be read"},
		"a line is cut after a setting": {before + "retention: 2160h0m0s\n", before + "retention: 2160h0m", "the file is only the beginning"},
		"the list is empty":             {before, strings.Replace(before, "/list", "/comments", 1), ""},
		"the list has become empty":     {before, before, "disposable_domains: the file has no domain"},

		"nothing as before":             {"", "# nothing\n", ""},
		"the same":                      {before, before, ""},
		"one key is taken out":          {before, rules + apps(shop, "bank "+key("p1", "pk_bank")), ""},
		"an app is taken out":           {before, rules + apps(bank), ""},
		"the last app, with a comment":  {before, rules + apps(shop) + "# without the bank\n", ""},
		"a key of the same ID":          {rules + apps(shop), rules + apps("shop "+key("k1", "sk_new")), ""},
		"another key of the same app":   {rules + apps(shop), rules + apps("shop "+key("k2", "sk_new")), "apps: the file has none of the keys"},
		"another name of the same key":  {rules + apps(shop), rules + apps("store "+key("k9", "sk_shop")), ""},
		"the last section is taken out": {before + "stop: [{channel: email, reason: x}]\n", before, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			c := must(t, of.before)
			next, err := loadYAML(of.next)
			if name == "the list has become empty" {
				next.Disposable = map[string]bool{}
			}
			if err == nil {
				err = c.CheckNothingLost(next)
			}
			if of.want == "" && err != nil || !strings.Contains(fmt.Sprint(err), of.want) {
				t.Errorf("got %v, want %q", err, of.want)
			}
		})
	}
	t.Run("beside_a_key_of_the_environment", func(t *testing.T) {
		api := "SENDCODE_API_KEY=" + goodKey
		c := must(t, before, api)
		err := c.CheckNothingLost(must(t, rules, api))
		wantEqual(t, "the keys of the file are lost", strings.HasPrefix(fmt.Sprint(err), "apps: the file has no key"), true)
		wantEqual(t, "the key of the environment is exchanged", must(t, rules, api).CheckNothingLost(must(t, rules, api+"x")), nil)
	})
	t.Run("of_the_settings_in_force", func(t *testing.T) {
		c := must(t, "").WithReloadable(must(t, before))
		wantEqual(t, "an empty file after a reload", c.CheckNothingLost(must(t, "")) != nil, true)
		trial := must(t, "")
		_, err := trial.LoadOrCreateSecrets(t.TempDir())
		servertest.OK(t, err)
		wantEqual(t, "a configured key replaces the generated one", trial.CheckNothingLost(must(t, before)), nil)
	})
}
