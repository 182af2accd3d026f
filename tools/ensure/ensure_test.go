package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/parts/locate"
)

// bare is a machine without any part, whose installer puts programs into dir.
func bare(t *testing.T) (dir string, program func(name string)) {
	dir = t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("CC", "")
	return dir, func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

var twoParts = []locate.Part{locate.Redis(), locate.Compiler()}

func TestRootInstallsWhatIsMissing(t *testing.T) {
	_, program := bare(t)
	program("gcc")
	var asked []string
	m := machine{root: true, apt: true, install: func(packages []string) error {
		asked = packages
		program("redis-server")
		return nil
	}}
	var out strings.Builder
	if !m.ensure(&out, twoParts) {
		t.Errorf("not ready: %s", out.String())
	}
	if !slices.Equal(asked, []string{"redis-server"}) {
		t.Errorf("asked for %v", asked)
	}
}

func TestOthersAreToldTheCommand(t *testing.T) {
	bare(t)
	for name, m := range map[string]machine{
		"not root": {apt: true, install: func([]string) error { t.Error("installs"); return nil }},
		"no apt":   {root: true, install: func([]string) error { t.Error("installs"); return nil }},
		"failing":  {root: true, apt: true, install: func([]string) error { return errors.New("no network") }},
	} {
		var out strings.Builder
		if m.ensure(&out, twoParts) {
			t.Errorf("%s: says that all is there", name)
		}
		want := m.advice("linux", twoParts)
		if sudo := strings.HasPrefix(want, "sudo "); sudo == m.root {
			t.Errorf("%s: advice %q", name, want)
		}
		if name == "failing" && !strings.Contains(out.String(), "no network") {
			t.Errorf("%s: the reason is not shown: %q", name, out.String())
		}
		if !strings.Contains(out.String(), "redis-server gcc libc6-dev") && !strings.Contains(out.String(), "brew install redis") {
			t.Errorf("%s: no command in %q", name, out.String())
		}
	}
}
