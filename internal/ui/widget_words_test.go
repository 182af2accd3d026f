package ui

import (
	"io/fs"
	"path"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sendcode/web"
)

// What the scripts of the widget say is in the catalogue: a name that is not would be shown as "undefined".
func TestTheWidgetsWordsExist(t *testing.T) {
	catalogue := reflect.TypeFor[cardTexts]()
	named := regexp.MustCompile(`\b(?:w|words|this\.#w)\.([A-Z]\w*)`)
	seen := 0
	err := fs.WalkDir(web.FS, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".js" {
			return err
		}
		text, err := fs.ReadFile(web.FS, name)
		if err != nil {
			return err
		}
		for _, found := range named.FindAllStringSubmatch(string(text), -1) {
			seen++
			if _, ok := catalogue.FieldByName(found[1]); !ok {
				t.Errorf("%s says %s, which no language has", name, found[1])
			}
		}
		return nil
	})
	if err != nil || seen < 50 {
		t.Errorf("%d words, %v", seen, err)
	}
}

// Every module that a served script imports is served too, and the page tells the browser of all that it will need.
func TestEveryImportIsServed(t *testing.T) {
	a := assets()
	imports := regexp.MustCompile(`from '\./([\w.-]+)'`)
	found := map[string]bool{}
	err := fs.WalkDir(web.FS, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".js" {
			return err
		}
		text, err := fs.ReadFile(web.FS, name)
		for _, m := range imports.FindAllStringSubmatch(string(text), -1) {
			if a.Path(m[1]) == "" {
				t.Errorf("%s imports %s, which nobody serves", name, m[1])
			}
			found[path.Base(name)+" "+m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	needed := map[string]bool{"page.js": true}
	for range 4 {
		for pair := range found {
			if from, to, _ := strings.Cut(pair, " "); needed[from] {
				needed[to] = true
			}
		}
	}
	if len(needed) != len(modules())+1 {
		t.Errorf("the page needs %v and tells of %v", needed, modules())
	}
	for _, name := range modules() {
		if !needed[name] {
			t.Errorf("the page tells of %s, which it does not need", name)
		}
	}
}
