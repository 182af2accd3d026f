package recipient

import (
	"fmt"
	"io"
	"log/slog"
)

// String gives the masked form.
func (r Recipient) String() string { return r.Masked() }

// GoString gives the masked form.
func (r Recipient) GoString() string { return "recipient.Recipient(" + r.Masked() + ")" }

// LogValue gives the masked form to slog.
func (r Recipient) LogValue() slog.Value { return slog.StringValue(r.Masked()) }

// MarshalText gives the masked form to JSON, YAML, XML and whatever else writes text. There is no way back from it.
func (r Recipient) MarshalText() ([]byte, error) { return []byte(r.Masked()), nil }

// Format gives the masked form for every verb: without it %d and %x would walk the fields.
func (r Recipient) Format(f fmt.State, verb rune) {
	switch {
	case verb == 'v' && f.Flag('#'):
		_, _ = io.WriteString(f, r.GoString())
	case verb == 'v', verb == 's', verb == 'q':
		_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), r.Masked())
	default:
		_, _ = io.WriteString(f, r.Masked())
	}
}
