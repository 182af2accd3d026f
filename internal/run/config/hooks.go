package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/document"
	"sendcode/internal/deliver/standardwebhooks"
	"sendcode/internal/http/authhooks"
)

// authHook is a route that an auth server calls. The auth server makes a code, and the service
// sends this code.
type authHook struct {
	// The hook's name, in its URL `POST /v1/hooks/NAME`.
	Name string `yaml:"name" required:"yes" check:"name"`
	// The app whose limits, titles and templates hold for these codes.
	App string `yaml:"app" default:"default"`
	// `supabase-email` or `supabase-sms`.
	Server                authhooks.HookKind `yaml:"server" required:"yes" oneof:"supabase-email supabase-sms"`
	document.SecretSource `yaml:",inline"`
	// The purpose of the codes, by the action of the auth server. The actions for mails are
	// `signup`, `recovery`, `invite`, `magiclink`, `email_change`, `email` and `reauthentication`.
	// The action for text messages is `sms`. An action that is not listed has the purpose
	// `default`.
	Purposes map[string]string `yaml:"purposes,omitempty" keys:"hook_action"`
	// How long the auth server's codes are valid, `1m` to `24h`. Messages mention this time. By
	// default they mention no time.
	TTL time.Duration `yaml:"ttl,omitempty" range:"1m 24h"`
	// The app [reports each code that was entered](supabase.md#reports). A code without a report
	// counts as not entered.
	Reports bool `yaml:"reports,omitempty"`
}

// hookSecretSeparator separates secrets, and hookSecretPrefix begins each, as in Supabase's
// settings: v1,whsec_…|v1,whsec_….
const (
	hookSecretSeparator = "|"
	hookSecretPrefix    = "v1,"
)

const minHookSecretLength = 16 // bytes

// hookActions are the actions for which an auth server makes codes.
var hookActions = []string{
	"signup", "recovery", "invite", "magiclink", "email_change", "email", "reauthentication",
	authhooks.ActionSMS,
}

func checkHookAction(text string) string {
	return problemIf(!slices.Contains(hookActions, text), "must be one of "+strings.Join(hookActions, ", "))
}

// secrets returns the keys of the hook's secrets. If a secret can't be decoded, its key is nil.
func (h authHook) secrets() (all [][]byte) {
	for text := range strings.SplitSeq(h.Secret.Reveal(), hookSecretSeparator) {
		encoded, found := strings.CutPrefix(strings.TrimSpace(text), hookSecretPrefix+standardwebhooks.SecretPrefix)
		var key []byte
		if found {
			key = DecodeWebhookSecret(document.NewSecret(encoded))
		}
		all = append(all, key)
	}
	return all
}

// Check implements document.checker. The hook's app and purposes must exist. Each action must be an
// action of the hook's server. The secret must be long enough.
func (h *authHook) Check(p *document.Mapping) {
	addReference(p, "app", "app", h.App)
	for _, action := range slices.Sorted(maps.Keys(h.Purposes)) {
		addReference(p, "purpose", "purposes."+action, h.Purposes[action])
		if sms := action == authhooks.ActionSMS; sms != (h.Server == authhooks.SupabaseSMS) {
			p.AddMistake("purposes", "%s is not an action of %s", action, h.Server)
		}
	}
	tooShort := func(key []byte) bool { return len(key) < minHookSecretLength }
	switch {
	case h.SecretEnv == "":
		p.AddMistake("", "secret_env is missing")
	case h.Secret.IsSet() && slices.ContainsFunc(h.secrets(), tooShort):
		p.AddMistake("secret_env",
			"must have the secret that Supabase shows: v1,whsec_ and base64 of at least %d bytes; separate several secrets by |",
			minHookSecretLength)
	}
}

// Hook returns the hook with its secrets.
func (h authHook) Hook() authhooks.Hook {
	return authhooks.Hook{
		Name: h.Name, App: h.App, Kind: h.Server, Secrets: h.secrets(), Purposes: h.Purposes,
		TTL: h.TTL, AppReports: h.Reports,
	}
}
