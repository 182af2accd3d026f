package app

import (
	"slices"
	"testing"

	"sendcode/internal/api"
	"sendcode/internal/code"
	"sendcode/internal/config"
	"sendcode/internal/policy"
)

// The scopes of the file are those of the API.
func TestTheScopesOfTheFile(t *testing.T) {
	var all []string
	for _, s := range api.Scopes {
		all = append(all, string(s))
	}
	if !slices.Equal(all, config.KeyScopes) {
		t.Errorf("the API knows %v, the file %v", all, config.KeyScopes)
	}
	keys := apiKeys(config.Config{Apps: []config.App{{Name: "a", Keys: []config.Key{{Kind: config.SecretKey, Scopes: config.KeyScopes}}}}})
	if !slices.Equal(keys[0].Scopes, api.Scopes) {
		t.Errorf("%v", keys[0].Scopes)
	}
}

// What config takes for a test recipient's code is what people can enter.
func TestAlphabetsHaveOneName(t *testing.T) {
	for _, a := range []code.Alphabet{code.Digits, code.Unambiguous} {
		if got := config.Characters(string(a)); got == "" || got != a.Characters() {
			t.Errorf("%s: %q in the configuration", a, got)
		}
	}
}

func TestConfigKnowsTheEvents(t *testing.T) {
	if !slices.Equal(config.WebhookEvents, policy.Events) {
		t.Errorf("%v, %v", config.WebhookEvents, policy.Events)
	}
}
