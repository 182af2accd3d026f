package house

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// A form in a document is posted to an address of the site, so it works before its script has
// loaded, or without the script. If it were sent by GET, the address of the page would contain its
// fields, such as the proof of a login.
func TestFormsOfDocumentsArePosted(t *testing.T) {
	forms := 0
	tree := os.DirFS(root)
	if err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && skipped(entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".md" &&
			!regexp.MustCompile(`^(docs|templates|web/(docs|mailbox|page))/`).MatchString(name):
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		found, problems := formsIn(string(text))
		forms += found
		for _, problem := range problems {
			t.Errorf("%s: %s", name, problem)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if forms < 8 {
		t.Errorf("%d forms were found", forms)
	}
}

func TestFormsThatAreNotPostedAreFound(t *testing.T) {
	for _, posted := range []string{
		`<form method="post" action="/in">`, `<FORM ACTION='/in' METHOD=POST>`,
		"<Form\n  onSubmit={(e) => { if (e > 1) go({ a: {} }); }}\n  {...more}\n  method=\"post\" action={to}\n>",
		`<form [formGroup]="form" (ngSubmit)="a > b" method="post" action="/in">`,
		`<form method="post" action="/r?a={{.A}}"{{if .B}} data-b{{end}}>`,
		`<button formmethod="post">`, `<formula>`, `useForm<FormValues>()`,
	} {
		if _, problems := formsIn(posted); problems != nil {
			t.Errorf("%s: %v", posted, problems)
		}
	}
	for _, other := range []string{
		`<form>`, `<form action="/in">`, `<form method="post">`, `<form method="get" action="/in">`, `<form method="" action="/in">`,
		`<form method="post" action="">`,
		`<FORM ACTION="/in">`, "<Form\n  onSubmit={() => { fetch('/x', { method: 'post', action: 1 }); }}\n>",
		`<form data-method="post" action="/in">`, `<form :method="post" action="/in">`,
		`<form title='method="post"' action="/in">`, `<form method="get" method="post" action="/in">`, "<form\n\taction=\"/in\"",
		`<form><p method="post" action="/in">`,
		`<button formmethod="get">`, `<button formMethod={'GET'}>`, `document.createElement("form")`, `h('form', {})`,
	} {
		if _, problems := formsIn(other); problems == nil {
			t.Errorf("not found: %s", other)
		}
	}
}

const inBraces = `\{(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*\}` // matches an expression of JSX or of a template

var (
	formTag   = regexp.MustCompile(`(?i)<form[\s/>]`)
	attribute = regexp.MustCompile(`\A[\s/]*(?:([^\s=>{/"']+)(?:\s*=\s*("[^"]*"|'[^']*'|` + inBraces + `|[^\s>"'{]+))?|` + inBraces + `)`)
	ofButtons = regexp.MustCompile(`(?i)\bformmethod\s*=\s*[{"'\s]*(\w*)`)
	byScript  = regexp.MustCompile("(?i)\\b(?:createElement|h|_?jsxs?)\\(\\s*[\"'`]form\\b")
)

// formsIn counts the forms of a text in HTML or JSX. It returns a problem for each form that is not
// posted to an address, for each button that sends its form in another way, and for a form that a
// script makes.
func formsIn(text string) (forms int, problems []string) {
	for _, at := range formTag.FindAllStringIndex(text, -1) {
		forms++
		rest, method, action := text[at[0]+len("<form"):], "", ""
		for m := attribute.FindStringSubmatch(rest); m != nil; m = attribute.FindStringSubmatch(rest) {
			rest = rest[len(m[0]):]
			switch value := strings.Trim(m[2], `"'`); strings.ToLower(m[1]) {
			case "method":
				method += value // if there are two, HTML uses the first, and JSX the last
			case "action":
				action = value
			}
		}
		if !strings.EqualFold(method, "post") || action == "" {
			problems = append(problems, fmt.Sprintf(`a form needs method="post" and an action: it has %q and %q`, method, action))
		}
	}
	for _, m := range ofButtons.FindAllStringSubmatch(text, -1) {
		if !strings.EqualFold(m[1], "post") {
			problems = append(problems, "a button has its form sent as "+m[1])
		}
	}
	if m := byScript.FindString(text); m != "" {
		problems = append(problems, "a form is made by a script: write its tag, which this test can read: "+m)
	}
	return forms, problems
}
