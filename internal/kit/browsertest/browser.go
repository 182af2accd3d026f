// Package browsertest drives the three families of browsers, Chromium, Firefox and WebKit, through
// one interface, for tests of what people do on the service's pages. It has only what such tests
// need. Chromium uses its DevTools protocol, Firefox WebDriver BiDi, WebKit classic WebDriver.
//
// Tests import it; the service does not.
package browsertest

import (
	"encoding/json"
	"fmt"
	"testing"

	"sendcode/internal/kit/servertest"
)

// Browser is a running browser of one of the three families: see [Chromium], [Firefox] and
// [WebKit]. It ends with the test for which it was started. If a browser is not installed, its test
// is skipped with the reason; in CI it fails.
type Browser struct {
	open func(testing.TB, Look) (driver, error)
}

// Look is how a tab shows pages.
type Look struct {
	Width, Height int64 // CSS pixels; 0: 800 and 700
	Dark          bool
	NoCookies     bool // the browser keeps no cookies; fixed when the tab is opened

	// Only Chromium uses the following fields.
	Motion bool   // prefers-reduced-motion: no-preference if true, otherwise reduce, since motion takes processor time
	Lang   string // Accept-Language; "": unchanged
	Zone   string // time zone of the browser's clock; "": unchanged
}

// driver has the steps that differ between browsers.
type driver interface {
	open(address string) error // also waits until the page is loaded
	// eval returns the text to which a JavaScript expression resolves. Failures in the page are
	// errors.
	eval(expression string) (string, error)
	keys(text string) error // presses a key for each rune, in the element that has the focus
	show(Look) error
	picture() ([]byte, error) // PNG of the whole page
}

// Tab is a tab with its own cookies and storage.
type Tab struct{ driver driver }

// Open opens a tab, which is closed when the test ends. Only one tab can be open at a time, because
// WebKit runs only one session.
func (b Browser) Open(t testing.TB, look Look) *Tab {
	t.Helper()
	if look.Width == 0 {
		look.Width, look.Height = 800, 700
	}
	d, err := b.open(t, look)
	servertest.OK(t, err)
	servertest.OK(t, d.show(look))
	return &Tab{d}
}

// Navigate goes to an address, and returns when the page is loaded.
func (t *Tab) Navigate(address string) error { return t.driver.open(address) }

// Eval decodes the value of a JavaScript expression, or of its promise, into result, as JSON.
func (t *Tab) Eval(expression string, result any) error {
	text, err := t.driver.eval("(async () => JSON.stringify(await (" + expression + ")) ?? 'null')()")
	if err != nil {
		return fmt.Errorf("%s: %w", expression, err)
	}
	return json.Unmarshal([]byte(text), result)
}

// Keys presses a key for each rune, in the element that has the focus. "\r" is Enter, "\t" is Tab.
func (t *Tab) Keys(text string) error { return t.driver.keys(text) }

// Show changes the size and the colours of the tab. In Firefox and WebKit the colours are fixed
// when the tab is opened.
func (t *Tab) Show(look Look) error { return t.driver.show(look) }

// Picture returns a picture of the whole page, in PNG.
func (t *Tab) Picture() ([]byte, error) { return t.driver.picture() }
