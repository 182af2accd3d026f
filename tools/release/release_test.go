package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// An archive, unpacked in an empty folder, is what its own README says: the program starts with nothing and takes a request.
func TestArchive(t *testing.T) {
	out := filepath.Join(t.TempDir(), "dist")
	r := release{tree: "../..", out: out, version: "0.1.0-test", at: time.Unix(1e9, 0).UTC(),
		flags: []string{"-ldflags=-s -X sendcode/internal/app.version="}} // what the other tests have compiled is linked once more
	if err := r.make([]string{runtime.GOOS + "/" + runtime.GOARCH}); err != nil {
		t.Fatal(err)
	}
	name := "sendcode_0.1.0-test_" + runtime.GOOS + "_" + runtime.GOARCH
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = out
	if said, err := check.CombinedOutput(); err != nil || strings.Count(string(said), ": OK") != 2 {
		t.Errorf("checksums: %v\n%s", err, said)
	}
	folder := filepath.Join(t.TempDir(), name)
	files := unpack(t, filepath.Join(out, name+".tar.gz"), filepath.Dir(folder))
	for _, want := range []string{"README.md", "UPGRADING.md", "sendcode", "sendcode.1", "sendcode.yaml", "sendcode.service", "completions/_sendcode",
		"licences/go/LICENSE", "licences/github.com/jackc/pgx/v5/LICENSE", "sbom.cdx.json"} {
		if !slices.Contains(files, name+"/"+want) {
			t.Errorf("%s is missing", want)
		}
	}
	var bom cyclonedx.BOM
	text, err := os.ReadFile(filepath.Join(out, name+".cdx.json"))
	if err == nil {
		err = json.Unmarshal(text, &bom)
	}
	if err != nil || !slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool {
		return strings.HasPrefix(c.PackageURL, "pkg:golang/github.com/redis/go-redis/v9@v")
	}) {
		t.Errorf("the bill of materials lacks a module (%v)", err)
	}
	if said, err := exec.CommandContext(t.Context(), filepath.Join(folder, "sendcode"), "version").Output(); err != nil || string(said) != "sendcode 0.1.0-test "+runtime.Version()+"\n" {
		t.Errorf("version: %q (%v)", said, err)
	}
	asTheReadmeSays(t, folder)
	if err := r.make([]string{"linux/amd64"}); err == nil {
		t.Error("archives are built over others")
	}
}

// asTheReadmeSays starts the program in its folder, and pastes the curl line with the key that the program printed.
func asTheReadmeSays(t *testing.T, folder string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	program := exec.CommandContext(ctx, "./sendcode")
	program.Cancel = func() error { return program.Process.Signal(syscall.SIGINT) }
	program.Dir, program.Env = folder, append(withoutSettings(), "SENDCODE_ADDR=127.0.0.1:0")
	printed, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = program.Wait() }()
	banner, address, key := "", regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`), regexp.MustCompile(`sk_[\w-]{32}[^\w-]`)
	for part := make([]byte, 4096); address.FindStringSubmatch(banner) == nil || key.FindString(banner) == ""; {
		n, err := printed.Read(part)
		if banner += string(part[:n]); err != nil {
			t.Fatalf("it ended with: %s (%v)", banner, err)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, printed) }()
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	curl := regexp.MustCompile(`(?s)curl -i .*?\n\x60`).FindString(string(readme))
	line := strings.NewReplacer("127.0.0.1:8080", address.FindStringSubmatch(banner)[1], "sk_…", strings.TrimRight(key.FindString(banner), "\" \n"), "`", "").Replace(curl)
	if said, err := exec.CommandContext(t.Context(), "bash", "-c", line).Output(); err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 202 ") {
		t.Errorf("%s\n%s (%v)", line, said, err)
	}
	if page, err := http.Get("http://" + address.FindStringSubmatch(banner)[1] + "/mailbox"); err != nil || page.StatusCode != http.StatusOK {
		t.Errorf("mailbox: %v %v", page, err)
	}
}

// withoutSettings returns our environment without what the program would take for its own.
func withoutSettings() (environ []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "SENDCODE_") {
			environ = append(environ, e)
		}
	}
	return environ
}

// unpack writes the files of an archive below a folder, and returns their names.
func unpack(t *testing.T, archive, below string) (names []string) {
	t.Helper()
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(zipped); ; {
		h, err := files.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if names = append(names, h.Name); !h.ModTime.Equal(time.Unix(1e9, 0)) {
			t.Errorf("%s is of %s", h.Name, h.ModTime)
		}
		text, err := io.ReadAll(files)
		file := filepath.Join(below, filepath.FromSlash(h.Name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(file), 0o755)
		}
		if err == nil {
			err = os.WriteFile(file, text, h.FileInfo().Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The bytes of an archive do not depend on the order in which files were found.
func TestPackIsReproducible(t *testing.T) {
	var first []byte
	for range 20 { // a map has another order each time
		packed, err := pack("x", map[string][]byte{"a": {1}, "b": {2}, "sendcode": {3}, "c/d": {4}}, time.Unix(1e9, 0))
		if err != nil || first != nil && !bytes.Equal(first, packed) {
			t.Fatalf("not the same bytes (%v)", err)
		}
		first = packed
	}
}
