package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// area is a part of the service with the tests of that part.
type area struct {
	Name    string
	Tests   []tests // in this order
	Mutants []mutant
}

// tests are one run of go test: a package, and flags for it.
type tests struct {
	Package string
	Flags   []string
}

// mutant replaces a text that a file has exactly once.
type mutant struct {
	File, Find, With string
	Tests            []tests // in place of the area's
	Equal            string  // why no test can tell the difference

	area        string
	text        []byte // of the changed file
	fingerprint string
}

func (m mutant) name() string { return m.File + ": " + oneLine(m.Find) + "  =>  " + oneLine(m.With) }

// oneLine returns a text as it is printed: without the indentation of its lines.
func oneLine(text string) string {
	if strings.TrimSpace(text) == "" {
		return "(nothing)"
	}
	return strings.Join(strings.Fields(text), " ")
}

// load reads the mutants of a list, in its order. If a file does not have a text exactly once, that
// is an error: otherwise the list would no longer test what it says.
func load(o options, text []byte) (all []mutant, err error) {
	var list struct{ Areas []area }
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("mutants.yaml: %w", err)
	}
	seen, packages := map[string]bool{}, map[string][]byte{}
	for _, a := range list.Areas {
		for _, m := range a.Mutants {
			m.area = a.Name
			if m.Tests == nil {
				m.Tests = a.Tests
			}
			original, err := os.ReadFile(filepath.Join(o.root, m.File))
			if err != nil {
				return nil, err
			}
			if n := strings.Count(string(original), m.Find); m.Find == "" || n != 1 || m.Find == m.With || seen[m.name()] {
				return nil, fmt.Errorf(
					"%s: the text is there %d times and must be once; or nothing changes, or it is in the list twice",
					m.name(), n)
			}
			seen[m.name()] = true
			m.text = []byte(strings.Replace(string(original), m.Find, m.With, 1))
			if m.fingerprint, err = fingerprint(o.root, m, packages); err != nil {
				return nil, err
			}
			all = append(all, m)
		}
	}
	return all, nil
}

// week is over how many days the packages are divided.
const week = 7

// daysOf assigns a day, 1 to week, to each package with mutants, so that the days have about as
// many mutants.
func daysOf(all []mutant) map[string]int {
	in, days, of := map[string]int{}, [week]int{}, map[string]int{}
	for _, m := range all {
		in[filepath.Dir(m.File)]++
	}
	largest := func(a, b string) int { return cmp.Or(in[b]-in[a], strings.Compare(a, b)) }
	for _, pkg := range slices.SortedFunc(maps.Keys(in), largest) {
		day := slices.Index(days[:], slices.Min(days[:]))
		days[day] += in[pkg]
		of[pkg] = day + 1
	}
	return of
}

// fingerprint hashes the changed file, the tests and the files of their packages. packages caches
// the packages' own hashes.
func fingerprint(root string, m mutant, packages map[string][]byte) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, m.File, m.Tests)
	h.Write(m.text)
	for _, t := range m.Tests {
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
