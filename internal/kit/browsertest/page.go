package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
)

// Page is a tab as a person uses it. Until, Shows, Fill and Leads wait, and try again while the
// browser is leaving the page. A step that fails ends the test, except Fits, which lets the test go
// on.
type Page struct {
	testing.TB
	*Tab
	Root string // JavaScript expression for the root of the elements: the document, or a widget's shadow tree
}

// NewPage opens an address in the tab. root is Page.Root; if it is empty, the root is the document.
func NewPage(t testing.TB, tab *Tab, address, root string) *Page {
	t.Helper()
	if root == "" {
		root = "document"
	}
	p := &Page{t, tab, root}
	p.Go(address)
	return p
}

// Go opens an address, and returns when the page is loaded.
func (p *Page) Go(address string) { p.Helper(); servertest.OK(p, p.Navigate(address)) }

// Element returns an expression for the first element that a CSS selector matches.
func (p *Page) Element(selector string) string {
	return fmt.Sprintf("%s?.querySelector(%q)", p.Root, selector)
}

// Value returns the value of a JavaScript expression.
func Value[T any](p *Page, expression string) (value T) {
	p.Helper()
	servertest.OK(p, p.Eval(expression, &value))
	return value
}

// Text returns the visible text of an element.
func (p *Page) Text(selector string) string {
	p.Helper()
	return Value[string](p, p.Element(selector)+".innerText")
}

// Until waits until a JavaScript expression is truthy.
func (p *Page) Until(expression string) {
	p.Helper()
	servertest.Await(p, expression, func() bool {
		var truthy bool
		err := p.Eval("!!("+expression+")", &truthy)
		return err == nil && truthy // an error means that the browser is leaving the page
	})
}

// Shows waits until the element is visible and its text contains each of the words.
func (p *Page) Shows(selector string, words ...string) {
	p.Helper()
	e := p.Element(selector)
	p.Until(e + "?.checkVisibility()")
	for _, w := range words {
		p.Until(fmt.Sprintf("%s?.innerText.replace(/\\s+/g, ' ').includes(%q)", e, w))
	}
}

// Fill waits for a field, empties the field and presses the keys in it.
func (p *Page) Fill(selector, keys string) {
	p.Helper()
	p.Shows(selector)
	p.Until(fmt.Sprintf("(e => { e.focus(); e.value = ''; return %s.activeElement === e })(%s)", p.Root, p.Element(selector)))
	servertest.OK(p, p.Keys(keys))
}

// Leads calls act, and waits for the page that act leads to. The path and query of this page must
// begin with to.
func (p *Page) Leads(to string, act func()) {
	p.Helper()
	Value[bool](p, "window.left = true") // the mark is lost with the page
	act()
	p.Until(fmt.Sprintf(
		"window.left === undefined && document.readyState === 'complete' && (location.pathname + location.search).startsWith(%q)", to))
}

// Fits fails the test if the page is wider than its window.
func (p *Page) Fits(name string) {
	p.Helper()
	if wide := Value[[2]int](p, "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"); wide[0] > wide[1] {
		p.Errorf("%s scrolls sideways: %d px in %d", name, wide[0], wide[1])
	}
}

// Shot writes a picture of the page into the folder that SENDCODE_TEST_SCREENSHOTS names. If the
// variable is not set, Shot does nothing.
func (p *Page) Shot(name string) {
	p.Helper()
	if dir := os.Getenv("SENDCODE_TEST_SCREENSHOTS"); dir != "" {
		png, err := p.Picture()
		servertest.OK(p, err)
		file := strings.NewReplacer("/", "-", " ", "_").Replace(p.Name() + "-" + name + ".png")
		servertest.OK(p, os.WriteFile(filepath.Join(dir, file), png, 0o600))
	}
}
