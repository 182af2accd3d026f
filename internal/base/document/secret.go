package document

import (
	"fmt"
	"log/slog"
)

// Secret holds a value that must not be shown. If the value is set, printing or marshalling a
// Secret gives "[secret]". If the value is not set, it gives an empty text. Only Reveal returns the
// value. In the zero Secret, the value is not set.
type Secret struct {
	// value is a pointer, so that fmt never prints the secret itself. If a struct of another
	// package has a Secret in an unexported field, fmt cannot call the methods of Secret and prints
	// its fields instead. Of a pointer in such a field, fmt prints only the address.
	value *string
}

// NewSecret returns a Secret with the value. If the value is empty, the Secret is not set.
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

// Format writes what String returns, also for verbs that do not call String: %d, %x, %#v.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue returns String, so that slog does not show the value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// UnmarshalText sets the secret to the text.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// MarshalText returns String, so that JSON and YAML do not show the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
