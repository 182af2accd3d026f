package console

import (
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
)

// While a list is open, Chromium passes no key events to the page. A choice applies with Enter
// there, too, and Escape applies nothing.
func choicesInAnOpenList(t *testing.T, browser chromium) {
	r := newRig(t)
	r.writeSent("ana@example.com")
	w := openWindow(r, browser)
	w.logIn()
	choicesApply(w.Page, w.site.URL)

	alt := chromedp.KeyModifiers(chromedp.ModifierAlt)
	opened := chromedp.Steps(chromedp.Focus(chromedp.CSS("[name=status]")), chromedp.KeyEvent(kb.ArrowDown, alt))
	w.goTo("/admin")
	w.do(opened, chromedp.KeyEvent(kb.ArrowDown+kb.ArrowDown))
	w.wantEval(`"at " + location.search`, "at ")
	w.leads("/admin?status=", chromedp.KeyEvent(kb.Enter))
	w.wantEval(`document.activeElement.name`, "status")
	w.goTo("/admin")
	w.do(opened, chromedp.KeyEvent(kb.ArrowDown+kb.Escape))
	w.wantEval(`location.pathname + location.search + "|" + document.activeElement.name`, "/admin|status")

	// After a touch opened the list, Enter applies a choice made by keyboard.
	w.goTo("/admin")
	touch := func(kind input.DispatchTouchEventType, points ...*input.TouchPoint) step {
		points = append([]*input.TouchPoint{}, points...) // an end has no points, and the protocol refuses null
		return browsertest.Command(input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: kind, TouchPoints: points})
	}
	at := &input.TouchPoint{}
	at.X, at.Y = w.middle("[name=status]")
	w.do(touch(input.DispatchTouchEventTypeTouchStart, at), touch(input.DispatchTouchEventTypeTouchEnd))
	w.Until(`document.activeElement.name === "status"`)
	w.leads("/admin?status=", chromedp.KeyEvent(kb.ArrowDown+kb.Enter))

	// The wheel over a field chooses nothing. A click beside the fields applies the choice made by
	// keyboard.
	w.goTo("/admin")
	w.do(chromedp.Focus(chromedp.CSS("[name=status]")))
	x, y := w.middle("[name=status]")
	w.do(browsertest.Command(input.DispatchMouseEvent, input.DispatchMouseEventParams{
		Type: input.DispatchMouseEventTypeMouseWheel, X: x, Y: y, DeltaX: 1, DeltaY: 120,
	}))
	w.wantEval(`"is " + document.querySelector("[name=status]").value + "."`, "is .")
	w.leads("/admin?status=failed", chromedp.KeyEvent("f"), chromedp.Click(chromedp.CSS(".nothing, .pages")))

	// If the filter in the address is invalid, the page has a button, since a person can't choose
	// again what the field already shows.
	w.goTo("/admin/overview?last=2h")
	w.leads("/admin/overview?last=24h", chromedp.Click(chromedp.CSS(".filter button")))
	w.wantNoProblems()
}

// choicesApply makes choices in the filters as persons and their tools make them. A choice by a
// pointer or a screen reader applies at once. A choice by keyboard applies with Enter, or when the
// field is left.
func choicesApply(p *browsertest.Page, siteURL string) {
	p.Helper()
	const (
		status = `document.querySelector("[name=status]")`
		choose = `((s, v) => { s.value = v; s.dispatchEvent(new Event("change", { bubbles: true })) })`
		press  = `((e) => e.dispatchEvent(new PointerEvent("pointerdown", { bubbles: true })))`
		pick   = `((o) => { for (const type of ["mousedown", "mouseup", "change", "click"]) {
			if (type === "change") o.selected = true;
			(type === "change" ? o.parentNode : o).dispatchEvent(new MouseEvent(type, { bubbles: true })) } })`
	)
	for _, c := range []struct {
		name, from string
		field      string // has the focus at the beginning; "": status
		keys       string
		script     string // runs after the keys
		leads      string // the new address; "": the page stays
		focus      string // a selector of what then has the focus
		value      string // the value of status afterwards
	}{
		{name: "type-ahead", keys: "ref", focus: "[name=status]", value: "refused"},
		{
			name: "End, Home, Page Down", keys: browsertest.End + browsertest.Home + browsertest.PageDown + browsertest.End,
			focus: "[name=status]", value: "refused",
		},
		{name: "Enter alone", keys: "\r", focus: "[name=status]"},
		{name: "a choice and Enter, twice", keys: "f\r\r", leads: "/admin?status=failed", focus: "[name=status]", value: "failed"},
		{name: "Tab to the next field", keys: "f\t", leads: "/admin?status=failed", focus: "[name=outcome]", value: "failed"},
		{name: "Tab to a link", from: "/admin?status=sent", field: "channel", keys: "e\t", leads: "/admin?", focus: ".clear", value: "sent"},
		{name: "Tab to more filters", field: "channel", keys: "e\t", leads: "/admin?channel=email", focus: "form.filter summary"},
		{
			name: "the focus is lost", keys: "f", script: `document.activeElement.blur()`,
			leads: "/admin?status=failed", focus: "body", value: "failed",
		},
		{
			name: "a link is pressed", keys: "f", script: `((a) => { a.focus(); a.click() })(document.querySelector(".brand"))`,
			leads: "/admin", focus: "body",
		},
		{
			name: "a pointer", script: press + `(` + status + `), ` + choose + `(` + status + `, "failed")`,
			leads: "/admin?status=failed", focus: "[name=status]", value: "failed",
		},
		{
			name: "a screen reader sets the value", script: choose + `(` + status + `, "failed")`,
			leads: "/admin?status=failed", focus: "[name=status]", value: "failed",
		},
		{
			name: "an arrow, then a click on an option", keys: browsertest.ArrowDown,
			script: pick + `(` + status + `.querySelector("[value=failed]"))`,
			leads:  "/admin?status=failed", focus: "[name=status]", value: "failed",
		},
		{
			name: "a second choice while the page is being left", script: choose + `(` + status + `, "failed"), ` + choose +
				`(document.querySelector("[name=channel]"), "email")`, leads: "/admin?channel=email&status=failed", focus: "[name=channel]", value: "failed",
		},
	} {
		if c.from == "" {
			c.from = "/admin"
		}
		if c.field == "" {
			c.field = "status"
		}
		p.Go(siteURL + c.from)
		p.Until(`(e => { e.focus(); return document.activeElement === e })(document.querySelector("[name=` + c.field + `]"))`)
		act := func() {
			if c.keys != "" {
				servertest.OK(p, p.Keys(c.keys))
			}
			if c.script != "" {
				browsertest.Value[string](p, `(setTimeout(() => { `+c.script+` }), "")`)
			}
		}
		if c.leads == "" {
			act()
		} else {
			p.Leads(c.leads, act)
		}
		servertest.Same(p, c.name+": status", browsertest.Value[string](p, status+`.value`), c.value)
		if !browsertest.Value[bool](p, `document.activeElement.matches("`+c.focus+`")`) {
			at := browsertest.Value[string](p, `document.activeElement.outerHTML.slice(0, 200)`)
			p.Errorf("%s: the focus is on %s", c.name, at)
		}
		if c.leads == "" && browsertest.Value[string](p, `location.search`) != "" {
			p.Errorf("%s: the choice applies", c.name)
		}
	}

	// After a link and Back, no choice waits: leaving the field leaves the page as it is.
	p.Go(siteURL + "/admin")
	p.Until(`(e => { e.focus(); return document.activeElement === e })(` + status + `)`)
	servertest.OK(p, p.Keys("f"))
	p.Leads("/admin/overview", func() {
		browsertest.Value[string](p,
			`(setTimeout(() => { const a = document.querySelector("a[href='/admin/overview']"); a.focus(); a.click() }), "")`)
	})
	p.Leads("/admin", func() { browsertest.Value[string](p, `(setTimeout(() => history.back()), "")`) })
	p.Until(status + `.value === ""`)
	browsertest.Value[string](p, `(window.left = true, `+status+`.focus(), "")`)
	servertest.OK(p, p.Keys("\t"))
	p.Until(`document.activeElement.name === "outcome"`)
	servertest.Same(p, "the page after Back and Tab", browsertest.Value[string](p, `location.search + window.left`), "true")
}
