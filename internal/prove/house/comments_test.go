package house

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// compoundName is a name of two words, such as ErrClosed, that is no part of a path or of another name.
	compoundName  = regexp.MustCompile(`(?:^|[^./\w])([A-Za-z][a-z0-9]+[A-Z]\w*[a-z]\w*)`)
	docLink       = regexp.MustCompile(`\[\*?([A-Z]\w*)(?:\.[A-Z]\w*)?\](?:[^(]|$)`) // not the link of a document
	qualifiedName = regexp.MustCompile(`\b([a-z]\w+)\.([A-Z]\w*[a-z]\w*)`)
	exampleLine   = regexp.MustCompile(`(?m)^\t.*$`)
	// othersNames are names that comments have of other programs.
	othersNames = words("restJson1 CommonErrors BranchNode StrictMode DevTools WebDriver BiDi WebKitGTK PullSmsSendStatus SnsHostProvider TestWebhookSign " +
		"CommandComplete TypeScript")
)

// Names in comments exist: names of two words and those in brackets in any file, store.Send in package
// store. A comment that begins with a name is of what has the name.
func TestNamesInCommentsExist(t *testing.T) {
	used, declared := wordsOutsideComments(t), map[string][]string{}
	for _, s := range sources(t) {
		pkg := strings.TrimSuffix(s.file.Name.Name, "_test")
		declared[pkg] = append(declared[pkg], declaredIn(s.file)...)
	}
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			text := exampleLine.ReplaceAllString(group.Text(), "")
			for _, name := range append(namesOf(compoundName, text), namesOf(docLink, text)...) {
				if !used[name] && !slices.Contains(othersNames, name) {
					t.Errorf("%s: a comment names %s, which does not exist: %.60q", s.name, name, text)
				}
			}
			for _, m := range qualifiedName.FindAllStringSubmatch(text, -1) {
				if names := declared[m[1]]; names != nil && !slices.Contains(names, m[2]) && !slices.Contains(othersNames, m[0]) {
					t.Errorf("%s: a comment names %s, which does not exist: %.60q", s.name, m[0], text)
				}
			}
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			first, _, _ := strings.Cut(strings.TrimSpace(f.Doc.Text()), " ")
			if name := strings.Trim(first, ".,:;"); name != f.Name.Name && slices.Equal(namesOf(compoundName, name), []string{name}) {
				t.Errorf("%s: the comment of %s begins with %s", s.name, f.Name.Name, name)
			}
		}
	}
}

// declaredIn returns the names of a file's functions, types, variables and constants.
func declaredIn(file *ast.File) (names []string) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// wordsOutsideComments has each word of the code, of documents but those of the past, and of what is
// served.
func wordsOutsideComments(t *testing.T) map[string]bool {
	t.Helper()
	all, word := map[string]bool{}, regexp.MustCompile(`\w+`)
	add := func(text string) {
		for _, w := range word.FindAllString(text, -1) {
			all[w] = true
		}
	}
	for _, s := range sources(t) {
		text := []byte(s.text)
		var code scanner.Scanner
		code.Init(token.NewFileSet().AddFile("", -1, len(text)), text, nil, 0)
		for _, kind, literal := code.Scan(); kind != token.EOF; _, kind, literal = code.Scan() {
			if kind == token.STRING {
				add(literal)
			} else {
				all[literal] = true
			}
		}
	}
	for _, pattern := range []string{"README*.md", "docs/*.*", "docs/*/*.*", "web/*/*.*", "web/*/*/*.*", "deploy/*/*", "quota/*.lua"} {
		files, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil { // else a folder
				add(string(text))
			}
		}
	}
	return all
}

// isNightly reports whether make test leaves a file out.
func isNightly(text string) bool { return strings.HasPrefix(text, "//go:build nightly\n") }

// A file with the nightly tag begins with it, is of tests, and says why make test leaves it out, or its
// package does. No file is for make test alone.
func TestNightlyFilesSayWhy(t *testing.T) {
	head, docs := map[string]string{}, map[string]string{} // what stands above package, by file and by package
	for _, s := range sources(t) {
		head[s.name], _, _ = strings.Cut("\n"+s.text, "\npackage ")
		docs[s.pkg] += strings.Join(strings.Fields(strings.ReplaceAll(head[s.name], "//", "")), " ")
	}
	for _, s := range sources(t) {
		if tagged := strings.Contains(head[s.name], "\n//go:build ") && strings.Contains(head[s.name], "nightly"); tagged &&
			(!isNightly(head[s.name][1:]+"\n") || !s.test || !strings.Contains(docs[s.pkg], "nly make nightly runs ")) {
			t.Errorf("%s: is no test file that begins with //go:build nightly and says: Only make nightly runs these tests: …", s.name)
		}
	}
}
