package locate

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestMissingSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CC", "")
	for _, part := range []Part{Redis(), Compiler()} {
		_, err := part.Find()
		var missing *Missing
		if !errors.As(err, &missing) {
			t.Fatalf("%s: error %v, want *Missing", part.Name, err)
		}
		for _, want := range append(slices.Clone(part.Debian), part.Name, part.Homebrew) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not name %q", err, want)
			}
		}
	}
}
