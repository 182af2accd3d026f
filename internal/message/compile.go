package message

import (
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"io/fs"
	"slices"
	texttemplate "text/template"
	"text/template/parse"
)

// template is the common interface of text/template and html/template.
type template interface {
	Name() string
	Execute(io.Writer, any) error
}

// set has the templates of all parts for one purpose and locale. A part is nil if it did not compile.
type set [partCount]template

// New reads and parses all templates, and renders samples with them. A file of an override replaces the file of the
// same path in earlier trees. The error lists all faults of all files, with lines if known.
func New(builtin fs.FS, overrides ...fs.FS) (*Renderer, error) {
	files, errs := mails.loadSources(builtin, overrides)
	r := &Renderer{sets: map[setKey]set{}}
	for _, k := range files.keys() {
		s, faults := compile(files, k)
		errs = slices.Concat(errs, faults, trySamples(s, k.locale))
		r.sets[k] = s
		if k.purpose == defaultPurpose {
			r.locales = append(r.locales, k.locale)
		}
	}
	if !slices.Contains(r.locales, fallbackLocale) {
		errs = append(errs, fmt.Errorf("%s/%s/%s: missing, every other language falls back to it", root, defaultPurpose, fallbackLocale))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("message templates:\n%w", errors.Join(unique(errs)...))
	}
	slices.SortStableFunc(r.locales, func(a, b string) int { return rank(a) - rank(b) })
	r.matcher = newMatcher(r.locales)
	return r, nil
}

// rank sorts the fallback locale first, as the matcher needs it.
func rank(locale string) int {
	if locale == fallbackLocale {
		return 0
	}
	return 1
}

// unique drops errors with equal messages, since a shared file is compiled for each purpose.
func unique(errs []error) []error {
	seen := map[string]bool{}
	return slices.DeleteFunc(errs, func(err error) bool {
		again := seen[err.Error()]
		seen[err.Error()] = true
		return again
	})
}

func compile(files sources, k setKey) (set, []error) {
	var s set
	var errs []error
	for i, file := range fileNames {
		t, faults := compilePart(files, k, file)
		if faults == nil {
			s[i] = t
		}
		errs = append(errs, faults...)
	}
	return s, errs
}

func compilePart(files sources, k setKey, file string) (template, []error) {
	name, content, err := files.find(k, file)
	if err != nil {
		return nil, []error{err}
	}
	var t template
	var trees []*parse.Tree
	if file == fileNames[htmlPart] {
		t, trees, err = parseHTML(files[layoutFile], name, content)
	} else {
		t, trees, err = parsePlain(name, content)
	}
	if err != nil {
		return nil, []error{err}
	}
	var unknown []error
	for _, tree := range trees {
		unknown = append(unknown, unknownFields(tree)...)
	}
	return t, unknown
}

func parsePlain(name, content string) (template, []*parse.Tree, error) {
	t, err := texttemplate.New(name).Parse(content)
	if err != nil {
		return nil, nil, err
	}
	var trees []*parse.Tree
	for _, sub := range t.Templates() {
		trees = append(trees, sub.Tree)
	}
	return t, trees, nil
}

func parseHTML(layout, name, content string) (template, []*parse.Tree, error) {
	t := htmltemplate.New(name)
	if _, err := t.New(layoutFile).Parse(layout); err != nil {
		return nil, nil, err
	}
	if _, err := t.Parse(content); err != nil {
		return nil, nil, err
	}
	var trees []*parse.Tree
	for _, sub := range t.Templates() {
		trees = append(trees, sub.Tree)
	}
	return t, trees, nil
}
