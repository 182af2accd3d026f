package document

import (
	"fmt"
	"log/slog"
)

// Secret holds a value that must not be shown. Printed or marshalled, it is "[secret]", or "" if it
// isn't set. Only Reveal returns the value. The zero Secret isn't set.
type Secret struct {
	// A pointer, so that fmt never prints the secret itself. If a struct of another package has a
	// Secret in an unexported field, fmt can't call the methods of Secret and prints its fields
	// instead. For a pointer, it prints only the address.
	value *string
}

// NewSecret returns a Secret that isn't set if the value is empty.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{&value}
}

// Reveal returns the value, or "" if it isn't set.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

func (s Secret) IsSet() bool { return s.value != nil }

// String hides the value.
func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return "[secret]"
}

// Format hides the value also from verbs that don't call String: %d, %x, %#v.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue hides the value from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// MarshalText hides the value from JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
