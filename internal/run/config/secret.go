package config

import (
	"cmp"
	"regexp"
	"strings"

	"sendcode/internal/base/document"
)

// Secret holds a value that must not be shown.
type Secret = document.Secret

var envNamePattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// ReadSecret implements document.SecretReader.
func (ss *settingsSource) ReadSecret(variable string) (secret Secret, problem string) {
	switch {
	case !envNamePattern.MatchString(variable):
		return Secret{}, "must be the name of a variable, such as TWILIO_TOKEN, and not the secret itself"
	case strings.HasPrefix(variable, envPrefix):
		return Secret{}, "variables that begin with " + envPrefix + " have a meaning of their own; take another name"
	}
	value, problem := ss.readVariable(variable, true)
	problem = cmp.Or(problem, problemIf(value.value == "", "is empty"), problemWithValue(value.value))
	if problem != "" {
		return Secret{}, value.source + ": " + problem
	}
	return document.NewSecret(value.value), ""
}
