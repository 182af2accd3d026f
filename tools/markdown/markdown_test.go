package markdown_test

import (
	"io/fs"
	"testing"

	"sendcode/tools/markdown"
)

// Links to missing targets are found in every notation. Links in fenced blocks are text.
func TestDeadLinks(t *testing.T) {
	read := func(name string) (string, error) {
		if name != "docs/a.md" {
			return "", fs.ErrNotExist
		}
		return "# A title: one\n", nil
	}
	const good = "[a [b] c](a.md#a-title-one) [outside](https://example.com/x)\n```\n[x](gone.md)\n```\n"
	const dead = "[x](gone.go \"TestX\") ![x](gone.png) <img src=\"gone.png\"> [two\nlines](a.md#b)"
	if got := markdown.DeadLinks("docs/b.md", good+dead, read); len(got) != 4 {
		t.Errorf("%q", got)
	}
}
