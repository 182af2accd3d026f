//go:build nightly

// Only `make nightly` runs this test: it starts browsers of its own.

package console

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// In Firefox, the tasks of support work by keyboard, and controls have the right values after Back.
// Every page fits there, too, and axe-core finds nothing wrong with it.
func TestConsoleInFirefox(t *testing.T) {
	engine, err := pagetest.LoadAxe(t.Context(), servertest.Chromium(t))
	servertest.OK(t, err)
	browser := browsertest.Firefox(t)
	t.Run("tasks", func(t *testing.T) { tasksOfSupport(t, browser) })
	t.Run("controls", func(t *testing.T) { controlsAfterBack(t, browser) })
	t.Run("choices and keys", func(t *testing.T) {
		r := newRig(t)
		r.writeSent("ana@example.com")
		p, site := inTab(r, browser, browsertest.Look{Width: 1280, Height: 800})
		choicesApply(p, site)
		p.Go(site + "/admin")
		keysOfAnyLayout(p)
	})
	for _, look := range []browsertest.Look{{Width: 320, Height: 800, Dark: true}, {Width: 1280, Height: 800}} {
		t.Run(fmt.Sprint("fits ", look.Width), func(t *testing.T) { everyPageFitsAt(t, browser, look, engine) })
	}
}

// inTab opens the console of a rig in a tab, and logs in.
func inTab(r *rig, browser browsertest.Browser, look browsertest.Look) (p *browsertest.Page, site string) {
	r.Helper()
	served := httptest.NewServer(r.Handler)
	r.Cleanup(served.Close)
	p = browsertest.NewPage(r.T, browser.Open(r.T, look), served.URL+"/admin", "")
	p.Fill("#password", consoletest.Password)
	p.Leads("/admin", func() { r.Must(p.Keys("\r")) })
	return p, served.URL
}

// tasksOfSupport performs each task once: find and explain, copy the reply, send again, reset,
// lift, export, erase.
func tasksOfSupport(t *testing.T, browser browsertest.Browser) {
	r := newRig(t)
	maria := r.writeSent("maria@example.com")
	paul := r.writeSent("paul@example.com")
	r.suppress("paul@example.com", "asked for no more mail")
	r.Clock.Add(70 * time.Second)
	r.writeRefused("maria@example.com", "hour", 20*time.Minute, 1)
	t.Cleanup(r.Svc.Background())
	p, site := inTab(r, browser, browsertest.Look{Width: 1280, Height: 800})
	press := func(keys string) { r.Must(p.Keys(keys)) }
	finds := func(typed, to string) {
		p.Go(site + "/admin")
		press("/")
		p.Until(`document.activeElement.id === "q"`)
		p.Leads(to, func() { press(typed + "\r") })
	}
	explains := func(leadsTo, why string) {
		p.Until(`document.activeElement.id === "reason"`)
		press(why)
		p.Leads(leadsTo, func() { press("\r") })
	}
	person, page := "/admin?recipient="+maria.Recipient.String(), explain.SendPageAddress(maria.ID)

	finds("maria@example.com", person)
	p.Shows("h1", "Accepted by mx1.example.net")
	p.Shows("main", "They asked again at")

	browsertest.Value[string](p, `(Object.defineProperty(navigator, "clipboard", { value: { writeText: async (t) => { window.copied = t } } }), "")`)
	press("c")
	p.Until(`window.copied?.startsWith("We sent a code to") && document.querySelector("#copy").textContent === "Copied"`)

	p.Leads(page+"?do=resend", func() { press("s") })
	explains(page+"?done=verification.resend", "ticket 7")
	p.Shows("[role=status]", "accepted it.")

	finds(store.SupportReference(maria.ID), page)
	p.Leads(page+"?do=reset", func() { press("r") })
	explains(page+"?done=quota.reset", "ticket 7")
	p.Shows("[role=status]", "The quota is reset: they can ask again now.")

	of := "/admin?recipient=" + paul.Recipient.String()
	finds("paul@example.com", of)
	p.Shows("main", "this recipient gets no mail")
	p.Leads("/admin/suppressions?recipient=", func() { press("l") })
	p.Until(`document.activeElement.matches("[name=reason]")`)
	press("asked for mail again")
	p.Leads("/admin/suppressions?done=suppression.lift", func() { press("\r") })
	p.Shows("[role=status]", "Lifted: p•••@example.com gets messages again. Nothing was sent now")

	page = explain.SendPageAddress(paul.ID)
	finds("paul@example.com", of)
	p.Leads(page+"?do=export", func() { press("x") })
	p.Until(`document.activeElement.id === "reason"`)
	press("ticket 8\r") // the answer is a file
	servertest.Await(t, "the export's end", func() bool { return len(r.Entries(auth.ActionExportRecipient)) == 2 })

	finds("paul@example.com", of)
	p.Leads(page+"?do=erase", func() { press("e") })
	p.Until(`document.activeElement.id === "reason"`)
	press("ticket 9\t")
	p.Until(`document.activeElement.matches("[name=sure]")`)
	press(" ")
	p.Until(`document.activeElement.checked`)
	p.Leads(page+"?done=recipient.erase", func() { press("\r") })
	p.Shows("[role=status]", "The recipient is erased.")
}

// controlsAfterBack tests that, after Back and after a reload, filters show which rows are listed
// and fields accept letters.
func controlsAfterBack(t *testing.T, browser browsertest.Browser) {
	r := newRig(t)
	sent := r.writeSent("ana@example.com")
	r.writeRefused("bo@example.com", "minute", time.Minute, 1)
	writeAppEvents(r)
	p, site := inTab(r, browser, browsertest.Look{Width: 1280, Height: 800})
	by := func(to, script string) {
		p.Leads(to, func() { browsertest.Value[string](p, `(setTimeout(() => { `+script+` }), "")`) })
	}
	expect := func(what, script, want string) {
		servertest.Same(t, what, browsertest.Value[string](p, `String(`+script+`)`), want)
	}
	const readOnly = `[...document.forms].flatMap((f) => [...f.elements]).filter((e) => e.readOnly).length`
	for _, c := range []struct{ path, name string }{
		{"/admin", "status"}, {"/admin/overview", "last"}, {"/admin/messages", "purpose"}, {"/admin/webhooks", "type"}, {"/admin/acts", "what"},
	} {
		field := `document.querySelector("form.filter [name=` + c.name + `]")`
		p.Go(site + c.path)
		before := browsertest.Value[string](p, field+".value")
		browsertest.Value[string](p, `((s) => { s.selectedIndex = s.options.length - 1; return "" })(`+field+`)`)
		by(c.path+"?", `document.querySelector("form.filter").requestSubmit()`)
		by(c.path, `history.back()`)
		expect(c.path+" after Back", field+".value", before)
		browsertest.Value[string](p, `((s) => { s.selectedIndex = s.options.length - 1; return "" })(`+field+`)`)
		by(c.path, `location.reload()`)
		expect(c.path+" loaded again", field+".value", before)
	}

	// A choice made by keyboard does not apply before Enter.
	p.Go(site + "/admin")
	browsertest.Value[string](p, `(document.querySelector("[name=status]").focus(), "")`)
	r.Must(p.Keys("f"))
	p.Until(`document.querySelector("[name=status]").value === "failed"`)
	expect("the page", `location.search`, "")

	// After a search or a posted form, Back leaves the fields writable.
	p.Go(site + "/admin")
	r.Must(p.Keys("/"))
	p.Leads("/admin?recipient=", func() { r.Must(p.Keys("ana@example.com\r")) })
	by("/admin", `history.back()`)
	expect("read-only after a search", readOnly, "0")
	p.Fill("#q", "bo@example.com")
	expect("another word", `document.querySelector("#q").value`, "bo@example.com")
	page := explain.SendPageAddress(sent.ID)
	p.Go(site + page + "?do=reset")
	p.Until(`document.activeElement.id === "reason"`)
	r.Must(p.Keys("ticket 7"))
	p.Leads(page+"?done=quota.reset", func() { r.Must(p.Keys("\r")) })
	by(page+"?do=reset", `history.back()`)
	expect("read-only after a reset", readOnly, "0")
}

// everyPageFitsAt is [everyPageFits] at one width, in any browser.
func everyPageFitsAt(t *testing.T, browser browsertest.Browser, look browsertest.Look, engine *pagetest.Axe) {
	r, _ := newRigWithProvider(t)
	pages := everyPage(r)
	for name, path := range pagesWithMistakes() {
		pages["mistake-"+name] = path
	}
	p, site := inTab(r, browser, look)
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		p.Go(site + pages[name])
		browsertest.Value[string](p, `(document.querySelectorAll("main details").forEach(d => d.open = true), "")`)
		p.Fits(name)
		if cut := strings.TrimSpace(browsertest.Value[string](p, clipped)); cut != "" {
			t.Errorf("%s: cut off: %s", name, cut)
		}
		found, err := engine.Violations(p.Tab, "html")
		r.Must(err)
		for _, v := range found {
			t.Errorf("%s: %s", name, v)
		}
		p.Shot(name)
	}
}
