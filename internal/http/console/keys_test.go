package console

import (
	"testing"

	devtools "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
)

// keysOfAnyLayout presses keys on a page with a list, as keyboards of other layouts and input
// methods do. If a key is a command, the page prevents the browser's own action.
func keysOfAnyLayout(p *browsertest.Page) {
	p.Helper()
	for _, c := range []struct {
		name, key string // key is a KeyboardEventInit
		in        string // selector of the field that has the focus; "": none has
		taken     bool
	}{
		{name: "Dvorak", key: `key: "j", code: "KeyC"`, taken: true},
		{name: "Dvorak's h", key: `key: "h", code: "KeyJ"`},
		{name: "AZERTY's slash", key: `key: "/", code: "Period", shiftKey: true`, taken: true},
		{name: "Hebrew slash", key: `key: "/", code: "KeyQ"`, taken: true},
		{name: "Cyrillic", key: `key: "о", code: "KeyJ"`, taken: true},
		{name: "Cyrillic with Shift", key: `key: "О", code: "KeyJ", shiftKey: true`},
		{name: "Greek", key: `key: "ξ", code: "KeyJ"`, taken: true},
		{name: "Cyrillic beside the letters", key: `key: "х", code: "BracketLeft"`},
		{name: "a Latin letter of Turkish", key: `key: "ğ", code: "KeyJ"`},
		{name: "AltGr", key: `key: "µ", code: "KeyJ", modifierAltGraph: true`},
		{name: "wide letter", key: `key: "ｊ", code: "KeyJ"`, taken: true},
		{name: "wide question mark", key: `key: "？", code: "Slash", shiftKey: true`, taken: true},
		{name: "the same again", key: `key: "?", code: "Slash", shiftKey: true`, taken: true},
		{name: "CapsLock", key: `key: "J", code: "KeyJ", modifierCapsLock: true`, taken: true},
		{name: "Shift", key: `key: "J", code: "KeyJ", shiftKey: true`},
		{name: "Shift in CapsLock", key: `key: "j", code: "KeyJ", shiftKey: true, modifierCapsLock: true`},
		{name: "Ctrl", key: `key: "j", code: "KeyJ", ctrlKey: true`},
		{name: "Meta", key: `key: "k", code: "KeyK", metaKey: true`},
		{name: "Alt", key: `key: "j", code: "KeyJ", altKey: true`},
		{name: "composing", key: `key: "j", code: "KeyJ", isComposing: true`},
		{name: "an input method", key: `key: "Process", code: "KeyJ"`},
		{name: "a dead key", key: `key: "Dead", code: "KeyJ"`},
		{name: "held down", key: `key: "j", code: "KeyJ", repeat: true`, taken: true},
		{name: "? held down", key: `key: "?", code: "Slash", repeat: true`},
		{name: "in a choice", key: `key: "j", code: "KeyJ"`, in: "[name=status]"},
		{name: "in a field", key: `key: "?", code: "Slash"`, in: "#q"},
	} {
		if c.in == "" {
			c.in = "none"
		}
		browsertest.Value[string](p, `(document.activeElement.blur(), document.querySelector("`+c.in+`")?.focus(), "")`)
		taken := browsertest.Value[bool](p, `!document.activeElement.dispatchEvent(
			new KeyboardEvent("keydown", { bubbles: true, cancelable: true, `+c.key+` }))`)
		servertest.Same(p, c.name, taken, c.taken)
	}
	// Autofill dispatches keydown events without a key.
	servertest.Same(p, "an event without a key", browsertest.Value[bool](p,
		`(window.thrown = false, addEventListener("error", () => { thrown = true }), document.dispatchEvent(new Event("keydown")), thrown)`), false)
}

// The keys are turned off by keyboard alone, and stay off on the next pages, in a browser without
// storage too.
func turnsTheKeysOff(t *testing.T, browser chromium) {
	r := newRig(t)
	r.writeSent("ana@example.com")
	w := openWindow(r, browser)
	w.do(browsertest.Command(devtools.AddScriptToEvaluateOnNewDocument, devtools.AddScriptToEvaluateOnNewDocumentParams{
		Source: `for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(window, name, { value: null })`,
	}))
	w.logIn()
	w.do(chromedp.KeyEvent("j?"))
	w.wantEval(`document.activeElement.id + document.querySelector("#keys").matches(":popover-open")`, "keys-ontrue")
	w.do(press("?")) // hides the list again, from the switch
	w.Until(`document.activeElement.matches("a[data-row]")`)
	w.do(chromedp.KeyEvent("? " + kb.Escape))
	w.Until(`document.activeElement.matches("a[data-row]")`)
	for range 2 {
		w.goTo("/admin?limit=5")
		w.do(press("?"), press("j"))
		w.wantEval(`document.activeElement.localName + document.querySelector("#keys-on").checked`, "bodyfalse")
	}
	w.do(chromedp.Focus(chromedp.CSS(`[popovertarget=keys]`)), chromedp.KeyEvent(kb.Enter+kb.Tab+" "))
	w.wantEval(`document.activeElement.id + document.querySelector("#keys-on").checked`, "keys-ontrue")
	w.goTo("/admin?limit=5")
	w.do(press("j"))
	w.wantEval(`document.activeElement.localName`, "a")
	w.wantNoProblems()
}
