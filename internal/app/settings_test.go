package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/api"
	"sendcode/internal/config"
	"sendcode/internal/policy"
	"sendcode/internal/store"
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

// The longest life in the file is the store's; prefixes are watched for as long as text messages' codes live.
func TestTheLongestLife(t *testing.T) {
	yaml := "purposes: {x: {kind: confirm, ttl: 24h, code: {length: 8}}}"
	cfg, err := config.Load([]string{"SENDCODE_CONFIG=c"}, func(string) ([]byte, error) { return []byte(yaml), nil })
	if err != nil {
		t.Fatal(err)
	}
	if life := policySet(cfg).LongestLife(); life != store.MaxLife {
		t.Errorf("a code lives %v, and the store thinks of %v", life, store.MaxLife)
	}
	cfg.SMS.Carriers = make([]config.SMSCarrier, 1)
	if w := (&App{cfg: cfg}).prefixWatch(); w.TTL != policy.MaxTextLife {
		t.Errorf("watched for %v", w.TTL)
	}
}
