package internal_test

import (
	"errors"
	"slices"
	"testing"

	"sendcode/internal/kit/markdown"
)

func TestDeadLinks(t *testing.T) {
	files := map[string]string{"docs/a.md": "# A title: one\n", "README.md": "# Read\n## 说明\n", "docs/p.png": ""}
	read := func(name string) (string, error) {
		text, ok := files[name]
		if !ok {
			return "", errors.New("no such file")
		}
		return text, nil
	}
	for text, want := range map[string][]string{
		"[a](a.md) [a [b] c](a.md#a-title-one) [r](../README.md#说明) ![p](p.png) <img src=\"p.png\">": nil,
		"[outside](https://example.com/x) and ```[x](y)``` and a[i](b c)": {
			"docs/b.md: [x](y) leads nowhere"},
		"```\n[x](gone.md)\n```\n":  nil,
		"# B\n[here](#b) [not](#c)": {"docs/b.md: [not](#c) has no such heading"},
		"[x](gone.md)":              {"docs/b.md: [x](gone.md) leads nowhere"},
		"[x](gone.go \"TestX\")":    {"docs/b.md: [x](gone.go \"TestX\") leads nowhere"},
		"![x](gone.png)":            {"docs/b.md: ![x](gone.png) leads nowhere"},
		"<img src=\"gone.png\">":    {"docs/b.md: src=\"gone.png\" leads nowhere"},
		"[two\nlines](a.md#b)":      {"docs/b.md: [two\nlines](a.md#b) has no such heading"},
	} {
		files["docs/b.md"] = text
		if got := markdown.DeadLinks("docs/b.md", text, read); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
