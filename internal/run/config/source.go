package config

import (
	"sendcode/internal/base/document"
)

// settingsSource is the file and the environment that settings are read from.
type settingsSource struct {
	*document.Decoder
	readFile func(string) ([]byte, error)
	environ  map[string]string // all variables: secret_env in the file may name any

	hasFailuresRule map[string]bool // policies of the file that have a rule with scope failures, by path
	references      []nameReference
}

// nameReference is a use of a policy, purpose, app or OAuth client by its name.
type nameReference struct {
	kind, name, where string // kind is "policy", "purpose", "app" or "oauth client"
}

func settingsSourceOf(p *document.Mapping) *settingsSource { return p.Owner.(*settingsSource) }

// addReference records that the value of a key is the name of a policy, purpose or app. Later,
// loader.complete checks that this policy, purpose or app exists.
func addReference(p *document.Mapping, kind, key, name string) {
	d := settingsSourceOf(p)
	d.references = append(d.references, nameReference{kind, name, p.LocationOf(key)})
}
