package config

import (
	"fmt"
	"log/slog"
)

// Secret holds a value that must not show. Every way of printing or marshalling it gives "[secret]", or nothing when it
// is not set; only Reveal gives the value. The zero Secret is not set.
type Secret struct {
	// A pointer, because fmt ignores the methods of a value in an unexported field of a foreign struct and walks its
	// insides; of a pointer at that depth it prints the address.
	value *string
}

// NewSecret wraps a value. An empty one is a Secret that is not set.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{&value}
}

// Reveal returns the value, empty when not set.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsSet reports whether there is a value.
func (s Secret) IsSet() bool { return s.value != nil }

// String returns "[secret]", or "" if the secret is not set.
func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return "[secret]"
}

// Format covers the verbs that would pass String by: %d, %x, %#v.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue keeps it out of slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Hidden keeps it out of what is printed.
func (s Secret) Hidden() bool { return true }

// UnmarshalText reads it.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// MarshalText keeps it out of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
