//go:build nightly

// Only make nightly runs these tests: they build archives and images.

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"

	"sendcode/internal/kit/markdown"
)

// An archive, unpacked in an empty folder, is what its own README says: the program starts with
// nothing and takes a request.
func TestArchive(t *testing.T) {
	out := filepath.Join(t.TempDir(), "dist")
	r := release{tree: "../..", out: out, version: "0.1.0-test", at: time.Unix(1e9, 0).UTC(),
		// what the other tests have compiled is linked once more
		flags: []string{"-ldflags=-s -X sendcode/internal/run/app.version="}}
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
	for _, want := range []string{"README.md", "UPGRADING.md", "SECURITY.md", "sendcode", "sendcode.1", "sendcode.yaml",
		"completions/_sendcode",
		"compose.yaml", "compose.postgres.yaml", "Dockerfile", "deploy/systemd/sendcode.service", "deploy/nginx.conf",
		"deploy/kubernetes/sendcode.yaml", "deploy/kubernetes-postgres/kustomization.yaml", "deploy/grafana/sendcode.json", "docs/sms.md",
		"docs/decisions/0001-two-gates.md", "docs/examples/SignIn.jsx", "docs/pictures/page.png", "licences/go/LICENSE",
		"licences/github.com/jackc/pgx/v5/LICENSE", "sbom.cdx.json"} {
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
	decidedBy(t, *bom.Components)
	followLinks(t, folder)
	if said, err := exec.CommandContext(t.Context(), filepath.Join(folder, "sendcode"),
		"version").Output(); err != nil || string(said) != "sendcode 0.1.0-test "+runtime.Version()+"\n" {
		t.Errorf("version: %q (%v)", said, err)
	}
	asTheReadmeSays(t, folder)
	if err := r.make([]string{"linux/amd64"}); err == nil {
		t.Error("archives are built over others")
	}
}

// decidedBy checks that licences.md lists each part of the program in the row of
// its licences.
func decidedBy(t *testing.T, parts []cyclonedx.Component) {
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
	if err != nil {
		t.Fatal(err)
	}
	for licences, names := range rows {
		slices.Sort(names)
		if row := "| " + licences + " | " + strings.Join(names, ", ") + " |"; !strings.Contains(string(table),
			row+"\n") {
			t.Errorf("licences.md lacks the row\n%s", row)
		}
	}
}

// followLinks reads every document of an unpacked archive: each relative link leads to a file and a
// heading of it.
func followLinks(t *testing.T, folder string) {
	t.Helper()
	tree, followed := os.DirFS(folder), 0
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && entry.Name() == "licences" {
			return fs.SkipDir // others wrote these
		}
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		text, err := fs.ReadFile(tree, name)
		followed += len(markdown.Links(name, string(text)))
		for _, problem := range markdown.DeadLinks(name, string(text), func(target string) (string, error) {
			to, err := fs.ReadFile(tree, target)
			return string(to), err
		}) {
			t.Error(problem)
		}
		return err
	})
	if err != nil || followed < 100 {
		t.Errorf("%d links were followed (%v)", followed, err)
	}
}

// A link to what the archive has stays, one to the source becomes its text, one to the example
// leads to where it is.
func TestRelink(t *testing.T) {
	files := map[string][]byte{
		"docs/a.md": []byte(
			"[b](b.md#b) [`TestX`](../internal/x_test.go) [t](../x_test.go \"TestT\") [all](../internal/run/config/example.yaml)"),
		"docs/b.md": []byte("# B\n"), "sendcode.yaml": nil,
	}
	if err := relink(files); err != nil ||
		string(files["docs/a.md"]) != "[b](b.md#b) `TestX` t [all](../sendcode.yaml)" {
		t.Errorf("%s (%v)", files["docs/a.md"], err)
	}
	files["docs/b.md"] = []byte("# C\n")
	if err := relink(files); err == nil || !strings.Contains(err.Error(), "[b](b.md#b) has no such heading") {
		t.Errorf("a dead link: %v", err)
	}
}

func TestNamed(t *testing.T) {
	root, err := goRoot()
	if err != nil {
		t.Fatal(err)
	}
	bsd, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := named(map[string][]byte{"LICENSE": bsd, "NOTICE": []byte("made by us"),
		"LICENSE-LOGO": []byte("a picture")})
	if err != nil || len(*got) != 2 || (*got)[0].License.ID != "BSD-3-Clause" ||
		(*got)[1].License.Name != "LICENSE-LOGO" {
		t.Errorf("%+v (%v)", got, err)
	}
	for name, files := range map[string]map[string][]byte{"unknown": {"LICENSE": []byte("Ask us.")},
		"none": {"NOTICE": bsd}} {
		if got, err := named(files); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The image of an archive is that of the tree, with the program of the archive.
func TestImageFile(t *testing.T) {
	tree, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	got, err := imageFile(string(tree), "0.1.0-test")
	_, want, _ := strings.Cut(string(tree), "\nUSER ")
	if err != nil || !strings.HasSuffix(got, want) || !strings.Contains(got, "\nCOPY sendcode /sendcode\n") ||
		!strings.Contains(got, "\nARG VERSION=0.1.0-test\n") ||
		strings.Contains(got, "RUN") || strings.Count(got, "\nCOPY") != 3 {
		t.Errorf("%s (%v)", got, err)
	}
	if got, err := imageFile("FROM scratch\n", "1"); err == nil {
		t.Error(got)
	}
}

// asTheReadmeSays starts the program in its folder, and pastes the curl line with the key that the
// program printed.
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
	banner, address, key := "", regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`),
		regexp.MustCompile(`sk_[\w-]{32}[^\w-]`)
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
	line := strings.NewReplacer("127.0.0.1:8080", address.FindStringSubmatch(banner)[1], "sk_…",
		strings.TrimRight(key.FindString(banner), "\" \n"), "`", "").Replace(curl)
	if said, err := exec.CommandContext(t.Context(), "bash", "-c", line).Output(); err != nil ||
		!strings.HasPrefix(string(said), "HTTP/1.1 202 ") {
		t.Errorf("%s\n%s (%v)", line, said, err)
	}
	// the link of the banner, whose cookie a client without a jar does not keep
	mailbox := regexp.MustCompile(`mailbox +(http\S+/mailbox)\?k=(\S+)`).FindStringSubmatch(banner)
	request, err := http.NewRequest(http.MethodGet, mailbox[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	request.AddCookie(&http.Cookie{Name: "sendcode_mailbox", Value: mailbox[2]})
	if page, err := http.DefaultClient.Do(request); err != nil ||
		page.StatusCode != http.StatusOK {
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
