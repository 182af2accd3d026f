package message

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "message(redacted)"

// Format hides the code from every verb: what carries one may be passed on, but not printed.
func (Data) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the code from slog.
func (Data) LogValue() slog.Value { return slog.StringValue(redacted) }

// Format hides the code from every verb.
func (Message) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the code from slog.
func (Message) LogValue() slog.Value { return slog.StringValue(redacted) }

// Format hides the code from every verb.
func (Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the code from slog.
func (Text) LogValue() slog.Value { return slog.StringValue(redacted) }
