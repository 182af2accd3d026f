package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// area is a package that is changed, with the tests that should notice the changes.
type area struct {
	Package string
	Tests   []tests // run in this order; empty: the package's own tests
	Equal   []equalMutants
	Also    []edit
}

// edit is a mutant that no operator makes. The file contains the text Find exactly once.
type edit struct{ File, Find, With string }

// tests are one run of go test: a package, and flags for it.
type tests struct {
	Package string
	Flags   []string
}

// equalMutants are the mutants of one operator in one function, if no test can notice them.
type equalMutants struct {
	Func, Operator, Why string
}

func readAreas(text []byte) ([]*area, error) {
	var list struct{ Areas []*area }
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("mutants.yaml: %w", err)
	}
	for _, a := range list.Areas {
		if len(a.Tests) == 0 {
			a.Tests = []tests{{Package: a.Package}}
		}
	}
	return list.Areas, nil
}

// loadPackage reads and type-checks the package of an area.
func loadPackage(root string, a *area) (*source, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export", a.Package)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", a.Package, err)
	}
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
	}
	var last listed
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath], last = p.Export, p // the package comes after all packages that it imports
	}
	s := &source{
		area: a, root: root, dir: last.Dir, path: last.ImportPath, fset: token.NewFileSet(),
		files: map[string]*ast.File{}, texts: map[string][]byte{},
		info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}},
	}
	s.deps = importer.ForCompiler(s.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, name := range last.GoFiles {
		text, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			return nil, err
		}
		file := filepath.Join(filepath.Clean(a.Package), name)
		if s.files[file], err = parser.ParseFile(s.fset, file, text, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		s.texts[file] = text
	}
	return s, s.check("", nil, s.info)
}

// shuffle sorts mutants by a hash of the seed and their names, so that each seed begins with other
// mutants.
func shuffle(all []mutant, seed int) {
	hashes := map[string][32]byte{}
	for _, m := range all {
		hashes[m.name()] = sha256.Sum256([]byte(fmt.Sprint(seed, " ", m.name())))
	}
	slices.SortStableFunc(all, func(a, b mutant) int {
		x, y := hashes[a.name()], hashes[b.name()]
		return bytes.Compare(x[:], y[:])
	})
}

// equalReason returns the reason why no test can notice the mutant, or "" if a test should.
func (m mutant) equalReason() string {
	for _, e := range m.pkg.Equal {
		if e.Func == m.Func && e.Operator == m.Operator {
			return e.Why
		}
	}
	return ""
}

// fingerprint hashes the changed file, the tests and the files of their packages. packages caches
// the hashes of the packages.
func fingerprint(root string, m mutant, text []byte, packages map[string][]byte) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, m.File, m.pkg.Tests)
	h.Write(text)
	for _, t := range m.pkg.Tests {
		if packages[t.Package] == nil {
			files, err := filepath.Glob(filepath.Join(root, t.Package, "*.*"))
			if err != nil {
				return "", err
			}
			p := sha256.New()
			for _, name := range files {
				text, err := os.ReadFile(name)
				if err != nil {
					return "", err
				}
				p.Write(text)
			}
			packages[t.Package] = p.Sum(nil)
		}
		h.Write(packages[t.Package])
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// fileText returns the unchanged text of the mutant's file.
func fileText(s *source, m mutant) ([]byte, error) {
	if text, found := s.texts[m.File]; found {
		return text, nil
	}
	return os.ReadFile(filepath.Join(s.root, strings.TrimPrefix(m.File, "/")))
}
