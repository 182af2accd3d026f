package message

import (
	"fmt"
	"io"
	"log/slog"
)

const redactedText = "message(redacted)"

// redacted, embedded in a struct with a code, hides it from every verb and from slog: it may be
// passed on, but not printed.
type redacted struct{}

// Format implements fmt.Formatter.
func (redacted) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redactedText) }

// LogValue implements slog.LogValuer.
func (redacted) LogValue() slog.Value { return slog.StringValue(redactedText) }
