package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Warnings and errors name their section, whatever follows their first colon and however the logger came about; other lines name none.
func TestWarningsNameTheirSection(t *testing.T) {
	var out bytes.Buffer
	logger := NameRunbooks(slog.New(slog.NewJSONHandler(&out, nil)))
	for _, c := range []struct {
		log  func(string, ...any)
		text string
		see  string
	}{
		{logger.Warn, "slow statement", "docs/runbooks.md#database-slow"}, {logger.With("a", 1).Error, "panic: at once", "docs/runbooks.md#defect"},
		{logger.Info, "slow statement", ""}, {logger.Warn, "mail_from is not set: set it", ""},
	} {
		out.Reset()
		c.log(c.text)
		if got := strings.Contains(out.String(), `"see"`); got != (c.see != "") || !strings.Contains(out.String(), c.see) {
			t.Errorf("%s: %s", c.text, &out)
		}
	}
}
