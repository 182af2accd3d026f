package app

import (
	"slices"
	"testing"

	"sendcode/internal/api"
	"sendcode/internal/config"
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
