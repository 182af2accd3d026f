package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// state is what is known of a mutant.
type state string

const (
	stateCaught  state = "caught"
	stateAlive   state = "alive"
	stateEqual   state = "equal" // in effect; the list says why
	stateUnknown state = "not run"
)

// result is a line of the file of results.
type result struct {
	Area        string `json:"area"`
	Name        string `json:"name"`
	State       state  `json:"state"`
	By          string `json:"by"` // the test that noticed it, or why none can
	Took        string `json:"took"`
	Fingerprint fingerprint
}

// fingerprint says whether a result still holds. A caught mutant is not tried again until its file changes; a surviving one is also tried
// again when its list of tests or a file of a package whose tests ran changes.
type fingerprint struct {
	Mutant, Tests string
}

func fingerprintOf(o options, m mutant) (fingerprint, error) {
	h := sha256.New()
	fmt.Fprintln(h, m.file)
	h.Write(m.text)
	packages := sha256.New()
	fmt.Fprintln(packages, o.runs(m))
	for _, t := range o.runs(m) {
		if err := hashDir(packages, filepath.Join(o.root, t.Package)); err != nil {
			return fingerprint{}, err
		}
	}
	return fingerprint{hex.EncodeToString(h.Sum(nil)), hex.EncodeToString(packages.Sum(nil))}, nil
}

// hashDir hashes the files of one directory.
func hashDir(h io.Writer, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %x\n", e.Name(), sha256.Sum256(text))
	}
	return nil
}

// results are kept in a file, one line of JSON for each; later lines win.
type results struct {
	file  *os.File
	known map[string]result // by name
}

func openResults(dir string) (*results, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	r := &results{known: map[string]result{}}
	name := filepath.Join(dir, "results.jsonl")
	old, err := os.Open(name)
	if err == nil {
		defer old.Close()
		lines := bufio.NewScanner(old)
		for lines.Scan() {
			var x result
			if json.Unmarshal(lines.Bytes(), &x) == nil { // a line that a stop cut short is of no use
				r.known[x.Name] = x
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r.file, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return r, err
}

func (r *results) Close() error { return r.file.Close() }

// of is the result of a mutant, if it still holds.
func (r *results) of(m mutant, now fingerprint) (result, bool) {
	x, ok := r.known[m.name()]
	if !ok || x.Fingerprint.Mutant != now.Mutant || x.State == stateAlive && x.Fingerprint.Tests != now.Tests {
		return result{}, false
	}
	return x, true
}

func (r *results) keep(x result) error {
	line, err := json.Marshal(x)
	if err != nil {
		return err
	}
	r.known[x.Name] = x
	_, err = r.file.Write(append(line, '\n'))
	return err
}

func (r result) print(out io.Writer) {
	switch r.State {
	case stateCaught:
		fmt.Fprintf(out, "%-7s %-8s %s\n                 by %s, %s\n", r.State, r.Area, r.Name, r.By, r.Took)
	case stateEqual:
		fmt.Fprintf(out, "%-7s %-8s %s\n                 %s\n", r.State, r.Area, r.Name, r.By)
	default:
		fmt.Fprintf(out, "%-7s %-8s %s\n", r.State, r.Area, r.Name)
	}
}

// table counts mutants by area.
type table struct {
	areas  []string
	counts map[string]map[state]int
	alive  int
}

func newTable() *table { return &table{counts: map[string]map[state]int{}} }

func (t *table) add(r result) {
	if t.counts[r.Area] == nil {
		t.areas, t.counts[r.Area] = append(t.areas, r.Area), map[state]int{}
	}
	t.counts[r.Area][r.State]++
	if r.State == stateAlive {
		t.alive++
	}
}

func (t *table) print(out io.Writer) {
	fmt.Fprintf(out, "\n%-10s %8s %8s %8s %8s %8s\n", "area", "mutants", "caught", "alive", "equal", "not run")
	var sum [5]int
	row := func(name string, n [5]int) {
		fmt.Fprintf(out, "%-10s %8d %8d %8d %8d %8d\n", name, n[0], n[1], n[2], n[3], n[4])
	}
	for _, name := range t.areas {
		c := t.counts[name]
		n := [5]int{0, c[stateCaught], c[stateAlive], c[stateEqual], c[stateUnknown]}
		for _, x := range n[1:] {
			n[0] += x
		}
		for i, x := range n {
			sum[i] += x
		}
		row(name, n)
	}
	row("all", sum)
}
