package app

import (
	"strings"
	"testing"

	"sendcode/internal/message"
	"sendcode/internal/sms"
	"sendcode/templates"
)

// A text message costs as much as it has segments. Ours take one in every language, with a long name of an app and the longest code.
func TestTextMessagesTakeOneSegment(t *testing.T) {
	r, err := message.NewTexts(message.TextLimits{Segments: 1, Measure: sms.Segments}, templates.FS)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CheckLength(strings.Repeat("W", 24), 10); err != nil {
		t.Error(err)
	}
}
