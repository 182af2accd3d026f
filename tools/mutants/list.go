package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed mutants.yaml
var listText []byte

// list is mutants.yaml.
type list struct {
	root  string
	Areas []area `yaml:"areas"`
}

// area is a part of the service with the tests that hold it.
type area struct {
	Name    string   `yaml:"name"`
	Tests   []tests  `yaml:"tests"` // in this order
	Mutants []change `yaml:"mutants"`
}

// tests are one run of go test: a package, and flags for it.
type tests struct {
	Package string   `yaml:"package"`
	Flags   []string `yaml:"flags"`
}

// change replaces a text that a file has exactly once.
type change struct {
	File  string  `yaml:"file"`
	Find  string  `yaml:"find"`
	With  string  `yaml:"with"`
	Tests []tests `yaml:"tests"` // in place of the area's
	Equal string  `yaml:"equal"` // why no test can tell the difference
}

// mutant is one changed file.
type mutant struct {
	area     string
	file     string // relative to the root
	label    string // what is changed, in one line
	original []byte // text of the file
	text     []byte // of the changed file
	start    int    // of what is changed, in the file
	end      int
	with     string
	tests    []tests
	equal    string
}

func (m mutant) name() string { return m.file + ": " + m.label }

func load(root string, text []byte) (*list, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	l := &list{root: root}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(l); err != nil {
		return nil, fmt.Errorf("mutants.yaml: %w", err)
	}
	return l, nil
}

// mutants are all of the list, in its order. A text that a file does not have exactly once is an error: the list would no longer test what
// it says.
func (l *list) mutants() (all []mutant, err error) {
	seen := map[string]bool{}
	for _, a := range l.Areas {
		for _, c := range a.Mutants {
			m, err := l.apply(a, c)
			if err != nil {
				return nil, err
			}
			if seen[m.name()] {
				return nil, fmt.Errorf("twice in the list: %s", m.name())
			}
			seen[m.name()] = true
			all = append(all, m)
		}
	}
	return all, nil
}

func (l *list) apply(a area, c change) (mutant, error) {
	m := mutant{area: a.Name, file: c.File, label: oneLine(c.Find) + "  =>  " + oneLine(c.With), tests: c.Tests, equal: c.Equal}
	if m.tests == nil {
		m.tests = a.Tests
	}
	text, err := os.ReadFile(filepath.Join(l.root, c.File))
	if err != nil {
		return m, err
	}
	if n := bytes.Count(text, []byte(c.Find)); c.Find == "" || n != 1 {
		return m, fmt.Errorf("%s has %q %d times, must have it once", c.File, c.Find, n)
	}
	if c.Find == c.With {
		return m, fmt.Errorf("%s: %q is replaced with itself", c.File, c.Find)
	}
	m.original, m.start, m.with = text, bytes.Index(text, []byte(c.Find)), c.With
	m.end = m.start + len(c.Find)
	m.text = slices.Concat(text[:m.start], []byte(c.With), text[m.end:])
	return m, nil
}

// oneLine is a text as it is printed: without the indentation of its lines.
func oneLine(text string) string {
	if strings.TrimSpace(text) == "" {
		return "(nothing)"
	}
	return strings.Join(strings.Fields(text), " ")
}
