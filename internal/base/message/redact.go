package message

import (
	"fmt"
	"io"
	"log/slog"
)

const redactedText = "message(redacted)"

// redacted is embedded in structs that have a code, so that fmt (with any verb) and slog print
// redactedText in place of the struct.
type redacted struct{}

// Format implements fmt.Formatter.
func (redacted) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redactedText) }

// LogValue implements slog.LogValuer.
func (redacted) LogValue() slog.Value { return slog.StringValue(redactedText) }
