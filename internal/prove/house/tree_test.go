package house

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const module = "sendcode/"

// source is one Go file of the repository. Files are parsed rather than listed
// by `go list`, so that those for other systems are seen as well.
type source struct {
	name    string // relative to the root, with slashes
	pkg     string // the directory of name
	test    bool
	imports []string
	text    string
	file    *ast.File
}

// root is the repository's: a package's tests run in its folder.
const root = "../../.."

// sources are all Go files of the tree, parsed once for all tests.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var parsed = sync.OnceValues(func() (all []source, err error) {
	tree := os.DirFS(root)
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && skipped(entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s := source{name: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), text: string(text), file: file}
		for _, spec := range file.Imports {
			s.imports = append(s.imports, strings.Trim(spec.Path.Value, `"`))
		}
		all = append(all, s)
		return nil
	})
	return all, err
})

// skipped names what the go command does not look into either, and what is not
// under version control.
func skipped(dir string) bool {
	return strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, "_") ||
		dir == "testdata" || dir == "data" || dir == "bin" || dir == "node_modules"
}

// standard tells the standard library by the first element of a path, which has
// a dot in every path that names a host.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".") && !strings.HasPrefix(imported, module)
}

// make build tells how far it is while it compiles, and not only at its end; what the compiler says of a mistake passes.
func TestMakeTellsHowFarItIs(t *testing.T) {
	dir := t.TempDir()
	told := filepath.Join(dir, "told")
	if err := syscall.Mkfifo(told, 0o600); err != nil {
		t.Fatal(err)
	}
	answer, err := os.OpenFile(told, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	// a go that compiles 60 packages, then waits until the line was read, and fails
	compiler := "#!/bin/sh\nif [ \"$1\" = list ]; then seq 649; exit; fi\nseq -f example.com/%g 60; timeout 120 head -n 1 " + told + " > " + dir + "/read || echo '# late'; echo '# sendcode'; exit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(compiler), 0o700); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "make", "--directory=../../..", "--no-print-directory", "build")
	build.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "MAKEFLAGS=")
	var mistakes strings.Builder
	build.Stderr = &mistakes
	out, err := build.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := build.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "compiled 50 of at most 649 packages" {
	}
	if _, err := answer.WriteString("\n"); err != nil {
		t.Error(err)
	}
	if err := build.Wait(); err == nil || !strings.Contains(mistakes.String(), "# sendcode\n") || strings.Contains(mistakes.String(), "# late") {
		t.Errorf("%v: %s", err, mistakes.String())
	}
}
