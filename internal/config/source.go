package config

import (
	"sendcode/internal/config/document"
)

// source is the file and the environment that settings are read from.
type source struct {
	*document.Decoder
	readFile func(string) ([]byte, error)
	environ  map[string]string // all variables: secret_env in the file may name any

	bounded    map[string]bool // policies of the file that have a rule with scope failures, by path
	references []reference
}

// reference is the use of a policy, purpose or app, which must be declared somewhere.
type reference struct {
	kind, name, where string // kind is "policy", "purpose" or "app"
}

// sourceOf returns the source of a mapping.
func sourceOf(p *document.Mapping) *source { return p.Owner.(*source) }

// addReference notes that the value of a key names a policy, purpose or app; complete checks that
// it exists.
func addReference(p *document.Mapping, kind, key, name string) {
	d := sourceOf(p)
	d.references = append(d.references, reference{kind, name, p.LocationOf(key)})
}
