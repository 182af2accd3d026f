package locate

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func program(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

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

func TestFindPrefersTheFirstName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	program(t, filepath.Join(dir, "valkey-server"))
	if got, err := Redis().Find(); err != nil || filepath.Base(got) != "valkey-server" {
		t.Errorf("with valkey alone: %q, %v", got, err)
	}
	program(t, filepath.Join(dir, "redis-server"))
	if got, err := Redis().Find(); err != nil || filepath.Base(got) != "redis-server" {
		t.Errorf("with both: %q, %v", got, err)
	}
}

func TestCompilerHonoursCC(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	program(t, filepath.Join(dir, "gcc"))
	t.Setenv("CC", "tinycc -m64")
	if got, err := Compiler().Find(); err == nil {
		t.Errorf("CC names an absent compiler, found %q", got)
	}
	program(t, filepath.Join(dir, "tinycc"))
	if got, err := Compiler().Find(); err != nil || filepath.Base(got) != "tinycc" {
		t.Errorf("CC names a compiler: %q, %v", got, err)
	}
}

// A link to postgres alone leads to the directory that has all programs.
func TestPostgresFollowsLinks(t *testing.T) {
	root := t.TempDir()
	real, links := filepath.Join(root, "lib", "bin"), filepath.Join(root, "links")
	for _, name := range []string{"postgres", "initdb", "pg_dump"} {
		program(t, filepath.Join(real, name))
	}
	if err := os.Mkdir(links, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(real, "postgres"), filepath.Join(links, "postgres")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", links)
	want, err := filepath.EvalSymlinks(real)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Postgres().Find(); err != nil || got != want {
		t.Errorf("found %q, %v; want %q", got, err, want)
	}
}

func TestPostgresByConfig(t *testing.T) {
	root := t.TempDir()
	bin := filepath.Join(root, "elsewhere")
	for _, name := range []string{"postgres", "initdb", "pg_dump"} {
		program(t, filepath.Join(bin, name))
	}
	script := "#!/bin/sh\necho " + bin + "\n"
	if err := os.WriteFile(filepath.Join(root, "pg_config"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", root)
	if got, err := Postgres().Find(); err != nil || got != bin {
		t.Errorf("found %q, %v; want %q", got, err, bin)
	}
}

func TestDebianVersionsNewestFirst(t *testing.T) {
	root := t.TempDir()
	for _, version := range []string{"9", "17", "15"} {
		program(t, filepath.Join(root, version, "bin", "postgres"))
	}
	var got []string
	for _, dir := range debianVersions(root) {
		got = append(got, filepath.Base(filepath.Dir(dir)))
	}
	if want := []string{"17", "15", "9"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestAnIncompletePostgresIsNone(t *testing.T) {
	dir := t.TempDir()
	program(t, filepath.Join(dir, "postgres"))
	program(t, filepath.Join(dir, "initdb"))
	if complete(dir) {
		t.Error("complete without pg_dump")
	}
}
