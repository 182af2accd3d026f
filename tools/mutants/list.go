package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
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
	Name     string   `yaml:"name"`
	Tests    []tests  `yaml:"tests"`    // in this order
	Generate []string `yaml:"generate"` // files whose syntax gives further mutants
	Mutants  []change `yaml:"mutants"`
	Equal    []equal  `yaml:"equal"` // of those that are generated
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

// equal says why no test can notice a generated mutant.
type equal struct {
	Name string `yaml:"name"`
	Why  string `yaml:"why"`
}

// mutant is one changed file.
type mutant struct {
	area      string
	file      string // relative to the root
	label     string // what is changed, in one line
	original  []byte // text of the file
	text      []byte // of the changed file
	start     int    // of what is changed, in the file
	end       int
	with      string
	tests     []tests
	equal     string
	generated bool
}

func (m mutant) changing(text []byte, e edit) mutant {
	m.original, m.text, m.start, m.end, m.with = text, e.apply(text), e.start, e.end, e.with
	return m
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

// mutants are all of the list, in its order, each area's generated ones after those that are written by hand. A text that a file
// does not have exactly once is an error: the list would no longer test what it says.
func (l *list) mutants(generated bool) (all []mutant, err error) {
	for _, a := range l.Areas {
		for _, c := range a.Mutants {
			m, err := l.apply(a, c)
			if err != nil {
				return nil, err
			}
			all = append(all, m)
		}
		if !generated {
			continue
		}
		more, err := l.generate(a)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, unique(all)
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
	at := bytes.Index(text, []byte(c.Find))
	return m.changing(text, edit{start: at, end: at + len(c.Find), with: c.With}), nil
}

func (l *list) generate(a area) (all []mutant, err error) {
	why := map[string]string{}
	for _, e := range a.Equal {
		why[e.Name] = e.Why
	}
	for _, file := range a.Generate {
		text, err := os.ReadFile(filepath.Join(l.root, file))
		if err != nil {
			return nil, err
		}
		edits, err := editsOf(file, text)
		if err != nil {
			return nil, err
		}
		for _, e := range edits {
			m := mutant{area: a.Name, file: file, label: e.label, tests: a.Tests, generated: true}.changing(text, e)
			m.equal = why[m.name()]
			delete(why, m.name())
			all = append(all, m)
		}
	}
	for name := range why {
		return nil, fmt.Errorf("area %s: there is no generated mutant %q", a.Name, name)
	}
	return all, nil
}

func unique(all []mutant) error {
	seen := map[string]bool{}
	for _, m := range all {
		if seen[m.name()] {
			return fmt.Errorf("twice in the list: %s", m.name())
		}
		seen[m.name()] = true
	}
	return nil
}

// oneLine is a text as it is printed: without the indentation of its lines.
func oneLine(text string) string {
	if strings.TrimSpace(text) == "" {
		return "(nothing)"
	}
	return strings.Join(strings.Fields(text), " ")
}
