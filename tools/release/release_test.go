//go:build nightly

// Only `make nightly` runs these tests, because they build an archive.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
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

	"sendcode/internal/kit/servertest"
)

// An archive, unpacked in an empty folder, works as its own README says: the program starts without
// a settings file and accepts a request.
func TestArchive(t *testing.T) {
	out := filepath.Join(t.TempDir(), "dist")
	r := release{
		tree: "../..", out: out, version: "0.1.0-test", modTime: time.Unix(1e9, 0).UTC(),
		// go build has the packages in its cache, since other tests build them with the same flags.
		flags: []string{"-ldflags=-s -X sendcode/internal/run/app.version="},
	}
	servertest.OK(t, r.make([]string{runtime.GOOS + "/" + runtime.GOARCH}))
	name := "sendcode_0.1.0-test_" + runtime.GOOS + "_" + runtime.GOARCH
	unpack := exec.CommandContext(t.Context(), "bash", "-c", "sha256sum --check --strict SHA256SUMS && tar -xzf *.tar.gz")
	unpack.Dir = out
	if output, err := unpack.CombinedOutput(); err != nil || strings.Count(string(output), ": OK") != 2 {
		t.Fatalf("%v: %v\n%s", unpack, err, output)
	}
	folder := filepath.Join(out, name)
	for _, want := range []string{
		"README.md", "UPGRADING.md", "SECURITY.md", "sendcode", "sendcode.yaml",
		"compose.yaml", "compose.postgres.yaml", "Dockerfile", "deploy/systemd/sendcode.service",
		"deploy/nginx.conf", "deploy/patroni/patroni.yml", "deploy/kubernetes/postgres.yaml", "deploy/helm/values.yaml",
		"deploy/grafana/sendcode.json", "docs/sms.md", "docs/decisions/0001-two-gates.md", "docs/examples/SignIn.jsx",
		"docs/pictures/page.png", "licences/go/LICENSE", "licences/github.com/jackc/pgx/v5/LICENSE", "sbom.cdx.json",
	} {
		if info, err := os.Stat(filepath.Join(folder, want)); err != nil || !info.ModTime().Equal(r.modTime) {
			t.Errorf("%s is missing, or of another time: %v", want, err)
		}
	}
	image, err := os.ReadFile(filepath.Join(folder, "Dockerfile")) // the Dockerfile copies the program in its folder, and compiles nothing
	if file := string(image); err != nil || !strings.Contains(file, "\nCOPY sendcode /sendcode\n") || strings.Contains(file, "RUN") ||
		!strings.Contains(file, "\nARG VERSION=0.1.0-test\n") || strings.Count(file, "\nCOPY") != 3 || !strings.Contains(file, "\nUSER ") {
		t.Errorf("%s (%v)", image, err)
	}
	if got, err := imageFile("FROM scratch\n", "1"); err == nil {
		t.Errorf("a Dockerfile of other stages becomes %s", got)
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
	checkLicencesFile(t, *bom.Components)
	if output, err := exec.CommandContext(t.Context(), filepath.Join(folder, "sendcode"),
		"version").Output(); err != nil || string(output) != "sendcode 0.1.0-test "+runtime.Version()+"\n" {
		t.Errorf("version: %q (%v)", output, err)
	}
	followReadme(t, folder)
	if err := r.make([]string{"linux/amd64"}); err == nil {
		t.Error("archives are built over others")
	}
}

// checkLicencesFile checks that licences.md lists each part of the program in the row of its
// licences.
func checkLicencesFile(t *testing.T, parts []cyclonedx.Component) {
	t.Helper()
	rows := map[string][]string{}
	for _, c := range parts {
		if c.Licenses == nil || len(*c.Licenses) == 0 {
			t.Errorf("the bill of materials has no licence of %s", c.Name)
			continue
		}
		var names []string
		for _, l := range *c.Licenses {
			names = append(names, l.License.ID+l.License.Name)
		}
		rows[strings.Join(names, ", ")] = append(rows[strings.Join(names, ", ")], c.Name)
	}
	table, err := os.ReadFile("licences.md")
	servertest.OK(t, err)
	for licences, names := range rows {
		slices.Sort(names)
		if row := "| " + licences + " | " + strings.Join(names, ", ") + " |"; !strings.Contains(string(table), row+"\n") {
			t.Errorf("licences.md lacks the row\n%s", row)
		}
	}
}

// relink keeps a link to a file in the archive, makes a link to a source file plain text, and moves
// a link to the example settings to their place in the archive. It fails if a heading is missing.
func TestRelink(t *testing.T) {
	files := map[string][]byte{
		"docs/a.md": []byte(
			"[b](b.md#b) [`TestX`](../internal/x_test.go) [t](../x_test.go \"TestT\") [all](../internal/run/config/example.yaml)"),
		"docs/b.md": []byte("# B\n"), "sendcode.yaml": nil,
	}
	if err := relink(files); err != nil || string(files["docs/a.md"]) != "[b](b.md#b) `TestX` t [all](../sendcode.yaml)" {
		t.Errorf("%s (%v)", files["docs/a.md"], err)
	}
	files["docs/b.md"] = []byte("# C\n")
	if err := relink(files); err == nil || !strings.Contains(err.Error(), "[b](b.md#b) has no such heading") {
		t.Errorf("a dead link: %v", err)
	}
}

// identifyLicences fails if licensecheck recognizes no licence in a module's files. A notice is no
// licence.
func TestIdentifyLicencesRefusesUnknownTerms(t *testing.T) {
	for _, file := range []string{"LICENSE", "NOTICE"} {
		if got, err := identifyLicences(map[string][]byte{file: []byte("Ask us.")}); err == nil {
			t.Errorf("%s: %+v", file, got)
		}
	}
}

// followReadme starts the program in its folder, and runs the curl line of the README with the
// key that the program printed.
func followReadme(t *testing.T, folder string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	program := exec.CommandContext(ctx, "./sendcode")
	program.Cancel = func() error { return program.Process.Signal(syscall.SIGINT) }
	settings := func(entry string) bool { return strings.HasPrefix(entry, "SENDCODE_") }
	program.Dir, program.Env = folder, append(slices.DeleteFunc(os.Environ(), settings), "SENDCODE_ADDR=127.0.0.1:0")
	printed, err := program.StdoutPipe()
	servertest.OK(t, err)
	servertest.OK(t, program.Start())
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
	servertest.OK(t, err)
	curl := regexp.MustCompile(`(?s)curl -i .*?\n\x60`).FindString(string(readme))
	line := strings.NewReplacer("127.0.0.1:8080", address.FindStringSubmatch(banner)[1], "sk_…",
		strings.TrimRight(key.FindString(banner), "\" \n"), "`", "").Replace(curl)
	if output, err := exec.CommandContext(t.Context(), "bash", "-c", line).Output(); err != nil ||
		!strings.HasPrefix(string(output), "HTTP/1.1 202 ") {
		t.Errorf("%s\n%s (%v)", line, output, err)
	}
}

// The bytes of an archive do not depend on the order in which files were found.
func TestPackIsReproducible(t *testing.T) {
	var first []byte
	for range 20 { // ranging over a map has another order each time
		packed, err := pack("x", map[string][]byte{"a": {1}, "b": {2}, "sendcode": {3}, "c/d": {4}}, time.Unix(1e9, 0))
		if err != nil || first != nil && !bytes.Equal(first, packed) {
			t.Fatalf("not the same bytes (%v)", err)
		}
		first = packed
	}
}
