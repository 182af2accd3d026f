package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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

var parsed = sync.OnceValues(func() ([]source, error) {
	var all []source
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if file != root && skipped(entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		s, err := read(root, file)
		all = append(all, s)
		return err
	})
	return all, err
})

// skipped names what the go command does not look into either, and what is not
// under version control.
func skipped(dir string) bool {
	return strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, "_") ||
		dir == "testdata" || dir == "data" || dir == "bin" || dir == "node_modules"
}

func read(root, file string) (source, error) {
	name, err := filepath.Rel(root, file)
	if err != nil {
		return source{}, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return source{}, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
	if err != nil {
		return source{}, err
	}
	name = filepath.ToSlash(name)
	s := source{
		name: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
		text: string(text),
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		s.imports = append(s.imports, imported)
	}
	return s, nil
}

// standard tells the standard library by the first element of a path, which has
// a dot in every path that names a host.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".") && !strings.HasPrefix(imported, module)
}
