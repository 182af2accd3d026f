package logs_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"sendcode/internal/base/logs"
)

func TestALineNamesItsSection(t *testing.T) {
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).With("a", 1).Warn("slow statement", "took_ms", 300, logs.SeeDatabaseSlow)
	if !strings.HasSuffix(out.String(), `,"took_ms":300,"see":"docs/runbooks.md#database-slow"}`+"\n") {
		t.Error(&out)
	}
}
