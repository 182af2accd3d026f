package main

import (
	"fmt"

	"sendcode/internal/config"
)

type key struct {
	Kind string `enum:"secret,public,ring,index,webhook" default:"secret" help:"secret: API key for a back end. public: API key for browsers. ring: entry of SENDCODE_SECRET_KEYS. index: SENDCODE_INDEX_KEY. webhook: a secret for SENDCODE_WEBHOOK_SECRETS."`
}

// Run prints the key on a line of its own, then what belongs into the settings. Nothing keeps the key.
func (k key) Run(p program) error {
	switch k.Kind {
	case "ring":
		return p.print(config.NewRingKey())
	case "index":
		return p.print(config.NewIndexKey())
	case "webhook":
		return p.print(config.NewWebhookSecret())
	}
	value, sum := config.NewAPIKey(config.KeyKind(k.Kind))
	_, _ = fmt.Fprintln(p.err, "The key, which is shown this once, and the line for the keys of an app in the file of SENDCODE_CONFIG:")
	return p.print(fmt.Sprintf("%s\n- {id: k_%s, kind: %s, sha256: \"%s\"}", value, sum[:8], k.Kind, sum))
}

func (p program) print(text string) error {
	_, err := fmt.Fprintln(p.out, text)
	return err
}
