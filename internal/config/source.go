package config

import (
	"sendcode/internal/config/document"
)

// source is what settings are read from: the file and the environment.
type source struct {
	*document.Decoder
	readFile func(string) ([]byte, error)
	environ  map[string]string // all variables: the file may name one that holds a secret

	bounded    map[string]bool // policies of the file that have a rule with scope failures, by path
	references []reference
}

// reference is a name that must be declared somewhere.
type reference struct {
	kind, name, where string // kind is "policy", "purpose" or "app"
}

// sourceOf returns the source that a mapping is in.
func sourceOf(p *document.Mapping) *source { return p.Owner.(*source) }

// addReference notes that the value of a key names a policy, purpose or app; complete checks that
// it exists.
func addReference(p *document.Mapping, kind, key, name string) {
	d := sourceOf(p)
	d.references = append(d.references, reference{kind, name, p.LocationOf(key)})
}
