package page_test

import (
	"os"
	"strings"
	"testing"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/servertest"
	"sendcode/quota"
)

// world returns a page whose clock moves only by hand, with these rules or, without rules, the
// default policy.
func world(t *testing.T, rules ...quota.Rule) *pagetest.World {
	t.Helper()
	w := pagetest.NewWorld(rules...)
	t.Cleanup(w.Close)
	return w
}

// sends requests a code for an address as the world's person, without a browser.
func sends(t *testing.T, w *pagetest.World, to string) {
	t.Helper()
	servertest.OK(t, w.Send(map[string]any{"channel": "email", "to": to}))
}

// contains fails the test unless a page's HTML, or another text, has all of the parts.
func contains(t testing.TB, page string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %s: %s", part, page)
		}
	}
}

// is fails the test unless got equals want.
func is[T comparable](t testing.TB, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// containsNone fails the test if a text has any of the words.
func containsNone(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if strings.Contains(text, w) {
			t.Errorf("the page says %q: %s", w, text)
		}
	}
}

// read returns the text of a file.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	servertest.OK(t, err)
	return string(text)
}
