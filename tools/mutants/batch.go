package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A batch is one build with many mutants, of which a variable of the environment chooses one. To build the test programs of each
// mutant takes longer than to run them. A function that mutants change calls the copy of the chosen one instead; an embedded text is
// replaced before the program begins. What is neither (a constant, a text of SQL in a variable) is built alone.

// chooses is the variable of the environment.
const chooses = "SENDCODE_MUTANT"

// batch is the files of a build with many mutants.
type batch struct {
	files map[string]*batchFile // by name
	texts map[string][]string   // cases of the choice of embedded texts, by the package's directory
	names map[string]string     // of packages, by directory
}

// batchFile is a file of Go with copies of functions at its end.
type batchFile struct {
	text    []byte
	tree    *ast.File
	set     *token.FileSet
	cases   map[int][]string // by the offset after the function's brace
	copies  []string
	numbers []int // of the mutants of the copies
}

func newBatch() *batch {
	return &batch{files: map[string]*batchFile{}, texts: map[string][]string{}, names: map[string]string{}}
}

// add takes a mutant into the batch, and says whether it can be in one.
func (b *batch) add(root string, m mutant, number int) bool {
	if !strings.HasSuffix(m.file, ".go") {
		return b.addText(root, m, number)
	}
	f := b.files[m.file]
	if f == nil {
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, m.file, m.original, parser.SkipObjectResolution)
		if err != nil {
			return false
		}
		f = &batchFile{text: m.original, tree: tree, set: set, cases: map[int][]string{}}
		b.files[m.file] = f
	}
	b.names[filepath.Dir(m.file)] = f.tree.Name.Name
	return f.add(m, number)
}

func (f *batchFile) add(m mutant, number int) bool {
	for _, d := range f.tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || f.offset(fn.Body.Lbrace) >= m.start || f.offset(fn.Body.Rbrace) < m.end {
			continue
		}
		receiver, args, ok := callOf(fn)
		if !ok {
			return false
		}
		name := fmt.Sprintf("%s_mutant%d", fn.Name.Name, number)
		call := receiver + name + "(" + args + ")"
		if fn.Type.Results != nil {
			call = "return " + call
		} else {
			call += "; return"
		}
		after := f.offset(fn.Body.Lbrace) + 1
		f.cases[after] = append(f.cases[after], fmt.Sprintf("case %d: %s", number, call))
		start, at := f.offset(fn.Pos()), f.offset(fn.Name.Pos())
		copied := string(f.text[start:at]) + name + string(f.text[at+len(fn.Name.Name):m.start]) + m.with +
			string(f.text[m.end:f.offset(fn.End())])
		f.copies, f.numbers = append(f.copies, copied), append(f.numbers, number)
		return true
	}
	return false
}

func (f *batchFile) offset(p token.Pos) int { return f.set.Position(p).Offset }

// callOf is how a function calls another with its own receiver and arguments, if all have names and no type is a parameter.
func callOf(fn *ast.FuncDecl) (receiver, args string, ok bool) {
	if fn.Type.TypeParams != nil {
		return "", "", false
	}
	if fn.Recv != nil {
		r := fn.Recv.List[0]
		if len(r.Names) != 1 || r.Names[0].Name == "_" {
			return "", "", false
		}
		receiver = r.Names[0].Name + "."
	}
	var names []string
	for _, p := range fn.Type.Params.List {
		if len(p.Names) == 0 {
			return "", "", false
		}
		for _, n := range p.Names {
			if n.Name == "_" {
				return "", "", false
			}
			name := n.Name
			if _, ok := p.Type.(*ast.Ellipsis); ok {
				name += "..."
			}
			names = append(names, name)
		}
	}
	return receiver, strings.Join(names, ", "), true
}

// addText takes a mutant of a text that a package embeds in a variable.
func (b *batch) addText(root string, m mutant, number int) bool {
	dir := filepath.Dir(m.file)
	embed := regexp.MustCompile(`//go:embed ` + regexp.QuoteMeta(filepath.Base(m.file)) + `\n\s*(?:var )?(\w+) string`)
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return false
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		found := embed.FindSubmatch(text)
		if found == nil {
			continue
		}
		b.texts[dir] = append(b.texts[dir], fmt.Sprintf("case %d: %s = %s", number, found[1], strconv.Quote(string(m.text))))
		b.names[dir] = string(regexp.MustCompile(`(?m)^package (\w+)`).FindSubmatch(text)[1])
		return true
	}
	return false
}

// source is the changed file, and the lines at which its copies begin.
func (f *batchFile) source() (text []byte, lines []int) {
	var out bytes.Buffer
	from := 0
	for at := range f.text {
		if cases := f.cases[at]; cases != nil {
			out.Write(f.text[from:at])
			fmt.Fprintf(&out, " switch mutantChosen { %s };", strings.Join(cases, "; "))
			from = at
		}
	}
	out.Write(f.text[from:])
	for _, c := range f.copies {
		lines = append(lines, bytes.Count(out.Bytes(), []byte("\n"))+2)
		out.WriteString("\n" + c + "\n")
	}
	return out.Bytes(), lines
}

// write writes the files and the JSON that puts them in the place of the real ones. blame says which mutant a line of a file is of.
func (b *batch) write(root, dir string) (overlay string, blame func(file string, line int) (number int, ok bool), err error) {
	replace, lines := map[string]string{}, map[string][]int{}
	put := func(name string, text []byte) string {
		file := filepath.Join(dir, strings.ReplaceAll(name, string(filepath.Separator), "_"))
		replace[filepath.Join(root, name)] = file
		err = errors.Join(err, os.WriteFile(file, text, 0o600))
		return file
	}
	of := map[string]*batchFile{}
	for name, f := range b.files {
		if len(f.copies) == 0 {
			continue
		}
		text, at := f.source()
		file := put(name, text)
		lines[file], of[file] = at, f
	}
	for pkg, name := range b.names {
		text := "package " + name + "\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar mutantChosen, _ = strconv.Atoi(os.Getenv(\"" + chooses +
			"\"))\n" +
			"\nfunc init() {\n\tswitch mutantChosen {\n\t" + strings.Join(b.texts[pkg], "\n\t") + "\n\t}\n}\n"
		put(filepath.Join(pkg, "chosen_mutant.go"), []byte(text))
	}
	list, jsonErr := json.Marshal(map[string]any{"Replace": replace})
	overlay = filepath.Join(dir, "overlay.json")
	err = errors.Join(err, jsonErr, os.WriteFile(overlay, list, 0o600))
	blame = func(file string, line int) (number int, ok bool) {
		for i, at := range lines[file] {
			if line >= at {
				number, ok = of[file].numbers[i], true
			}
		}
		return number, ok
	}
	return overlay, blame, err
}
