package app

import (
	"fmt"
	"slices"
	"strings"
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
	file := func(scopes ...string) (config.Config, error) {
		yaml := fmt.Sprintf("apps: [{name: a, keys: [{id: k, kind: secret, sha256: %064d, scopes: [%s]}]}]", 1, strings.Join(scopes, ", "))
		return config.Load([]string{"SENDCODE_CONFIG=c"}, func(string) ([]byte, error) { return []byte(yaml), nil })
	}
	c, err := file(all...)
	if err != nil || !slices.Equal(apiKeys(c)[0].Scopes, api.Scopes) {
		t.Errorf("%v, %v", c.Apps, err)
	}
	if _, err := file("none"); err == nil || !strings.Contains(err.Error(), strings.Join(all[:3], ", ")+" or "+all[3]) {
		t.Errorf("the API knows %v, the file: %v", all, err)
	}
}
