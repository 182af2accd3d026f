//go:build nightly

// Only `make nightly` runs these tests: they need npm.

package page_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/evanw/esbuild/pkg/api"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
)

// aWidgetInReact tests the documentation's component, mounted twice as React's StrictMode does.
func aWidgetInReact(t *testing.T, browser context.Context) {
	inABrowserAndRendered(t, browser, application(t, "react.jsx", "../../../docs/examples/SignIn.jsx"))
}

// aWidgetInVue tests the documentation's component.
func aWidgetInVue(t *testing.T, browser context.Context) {
	inABrowserAndRendered(t, browser, application(t, "vue.js", "../../../docs/examples/SignIn.vue"))
}

// inABrowserAndRendered tests an application that is rendered in the browser, and the same
// application rendered by a server.
func inABrowserAndRendered(t *testing.T, browser context.Context, script string) {
	t.Run("in the browser", func(t *testing.T) { aWidgetInAFramework(visitingAnApplication(t, browser, script, "")) })
	t.Run("rendered", func(t *testing.T) {
		render := exec.CommandContext(t.Context(), "node", "--input-type=module")
		render.Stdin, render.Stderr = strings.NewReader(script), t.Output()
		page, err := render.Output()
		if err != nil || !strings.Contains(string(page), "<send-code") {
			t.Fatalf("%v: %q", err, page)
		}
		aWidgetInAFramework(visitingAnApplication(t, browser, script, strings.TrimSpace(string(page))))
	})
}

// aWidgetInAFramework tests a sign-in. The application sets the attributes and gets the events. A
// changed purpose starts the widget again. The proof is the form's value. If the application's
// server refuses the proof, the first card is shown again.
func aWidgetInAFramework(b *tab, w *pagetest.World) {
	b.Helper()
	const form = `document.querySelector('form')`
	b.until(`window.change`)
	b.asked(pagetest.Address)
	b.card("code")
	for _, wrong := range []string{"111111", "222222"} {
		b.fills("code", wrong+kb.Enter)
		b.until(fmt.Sprintf(`heard.some(([name, detail]) => name === 'wrong' && detail.attempts_remaining === %d)`, 5-int(wrong[0]-'0')))
	}
	b.until(form + `.querySelector('a')?.checkVisibility()`) // the application counts the events of wrong codes
	b.run(`change('gift')`)
	b.card("ask")
	is(b, eval[bool](b, form+`.checkValidity()`), false)
	b.asked("ben@example.com")
	b.getsIn()
	submitted := func(accepts bool) {
		b.Helper()
		b.run(`window.proof = undefined`, fmt.Sprintf(`window.accepts = %v`, accepts), form+`.querySelector('button').click()`)
		b.until(`window.proof === 'a.b.c'`)
	}
	submitted(false) // the application's server refuses the proof
	b.card("ask")
	is(b, eval[bool](b, form+`.checkValidity()`), false)
	w.Advance(time.Minute)
	b.asked("ben@example.com")
	b.getsIn()
	submitted(true)
	is(b, b.proof(), "a.b.c")
	requests := w.Codes.SendRequests()
	is(b, len(requests), 3)
	is(b, [2]string{requests[0].Purpose, requests[1].Purpose}, [2]string{"default", "gift"})
}

// visitingAnApplication opens a site's page with an application that renders the widget, or takes
// over the elements that a server rendered.
func visitingAnApplication(t *testing.T, browser context.Context, script, rendered string) (*tab, *pagetest.World) {
	t.Helper()
	b, w := inAShop(t, browser)
	own := strings.NewReplacer("pk_your_public_key", pagetest.PublicKey)
	s := w.Embed(`<main id="app">`+own.Replace(rendered)+`</main><script type="module" src="/own.js"></script>`, "")
	t.Cleanup(s.Close)
	s.Script = own.Replace(script)
	b.do(chromedp.Navigate(s.URL))
	b.until(`document.querySelector('send-code')`)
	return b, w
}

// inAShop returns a tab for a site's page with an application, and the world that the site trusts.
func inAShop(t *testing.T, browser context.Context) (*tab, *pagetest.World) {
	t.Helper()
	w := accepting(t)
	w.Codes.Proof = "a.b.c"
	b := open(t, browser, w, browsertest.Look{})
	b.tolerate = "rusted" // Vue asks for a Trusted Types policy that the site does not allow, and works without it
	b.root = `document.querySelector('send-code').shadowRoot`
	b.first(eventScript)
	return b, w
}

// aWidgetInAFormLibrary tests a widget that is registered with react-hook-form. The library sets
// the value "" when it starts, and reads the proof from the events of an input.
func aWidgetInAFormLibrary(t *testing.T, browser context.Context) {
	b, w := visitingAnApplication(t, browser, application(t, "form.jsx", ""), "")
	submitted := func() { t.Helper(); b.run(`document.querySelector('button').click()`) }
	aWidgetWhoseValueIsSet(b, w, func(value string) string { return fmt.Sprintf(`form.setValue('proof', %q)`, value) })
	submitted()
	b.until(`window.proof === 'a.b.c'`)
	for _, reset := range []string{`form.reset()`, `form.reset({ proof: '' })`} {
		b.run(reset)
		b.card("ask")
		is(t, b.proof(), "")
		b.run(`window.proof = undefined`)
		submitted()
		b.focused("to") // the library moves the focus to the missing field
		is(t, eval[bool](b, `window.proof === undefined`), true)
		w.Advance(time.Minute)
		b.asked(pagetest.Address)
		b.getsIn()
	}
}

// aWidgetInAnAction tests that the proof stays although React resets a form after each of its
// actions.
func aWidgetInAnAction(t *testing.T, browser context.Context) {
	b, _ := visitingAnApplication(t, browser, application(t, "action.jsx", ""), "")
	b.asked(pagetest.Address)
	b.getsIn()
	for range 2 {
		b.run(`window.proof = undefined`, `document.querySelector('input').value = 'x'`, `document.querySelector('button').click()`)
		b.until(`window.proof === 'a.b.c' && document.querySelector('input').value === 'ana'`) // the form was reset
		b.card("approved")
		is(t, b.proof(), "a.b.c")
	}
	b.run(`document.querySelector('send-code').value = ''`)
	b.card("ask")
}

// aWidgetInADialog tests a sign-in with only the keyboard in the dialogs of libraries, which keep
// the focus inside. Tab reaches the field and the button. An answer moves the focus to the field
// for the code, and the code is entered there.
func aWidgetInADialog(t *testing.T, browser context.Context) {
	script := application(t, "dialogs.jsx", "")
	for _, dialog := range []string{"radix", "headless", "aria", "modal", "trap", "micro"} {
		t.Run(dialog, func(t *testing.T) {
			b, _ := visitingAnApplication(t, browser, script, "")
			b.tolerate = "violates the following Content Security Policy" // react-modal has inline styles
			b.run(fmt.Sprintf(`show(%q)`, dialog))
			b.until(fmt.Sprintf(`document.querySelector('send-code') && (!['trap', 'micro'].includes(%[1]q) || document.querySelector('#' + %[1]q))`, dialog))
			b.card("ask")
			if dialog == "trap" || dialog == "micro" {
				b.run(fmt.Sprintf(`(%s(), 0)`, dialog))
			}
			var at []string
			for range 6 {
				b.keys(kb.Tab)
				b.rest(glance)
				at = append(at, eval[string](b, `document.querySelector('send-code').shadowRoot.activeElement?.id || document.activeElement.textContent`))
			}
			if all := strings.Join(at, " "); !strings.Contains(all, "to send") {
				t.Errorf("Tab goes %s", all)
			}
			b.fills("to", pagetest.Address+kb.Enter)
			b.card("code")
			b.focused("code")
			b.rest(longer) // by now, a library that takes the focus back has done so
			b.focused("code")
			b.keys("111111")
			b.card("code", "That code is wrong")
			b.focused("code")
			b.keys(pagetest.Code)
			b.card("approved")
		})
	}
}

// aWidgetWithVModel tests Vue's v-model, which sets the value "" when it starts.
func aWidgetWithVModel(t *testing.T, browser context.Context) {
	b, w := visitingAnApplication(t, browser, application(t, "model.js", "testdata/frameworks/Model.vue"), "")
	aWidgetWhoseValueIsSet(b, w, func(value string) string { return fmt.Sprintf(`model.proof.value = %q`, value) })
	b.run(`model.purpose.value = 'gift'`)
	b.card("ask")
	b.until(`document.querySelector('output').textContent === ''`) // the proof of another purpose is gone
}

// aWidgetWhoseValueIsSet tests a value that a framework sets. The value "" removes a proof and does
// nothing else. A text that is not a proof does nothing.
func aWidgetWhoseValueIsSet(b *tab, w *pagetest.World, set func(value string) (expression string)) {
	b.Helper()
	output := func(want string) {
		b.Helper()
		b.until(fmt.Sprintf(`document.querySelector('output').textContent === %q`, want))
	}
	b.asked(pagetest.Address)
	b.card("code")
	b.do(chromedp.Reload())
	b.card("code", "a•••@example.com")
	b.run(set("x"))
	b.run(set(""))
	b.card("code", "a•••@example.com")
	b.nothingKeptBut("verification-1")
	is(b, w.Codes.Sends(), 1)
	b.getsIn()
	output("a.b.c") // the framework gets the same event as from an input
	b.run(set("another"))
	output("another")
	is(b, b.proof(), "a.b.c")
	b.card("approved")
	b.run(set(""))
	b.card("ask")
	output("")
	is(b, b.proof(), "")
	b.asked("ben@example.com")
	b.getsIn()
	output("a.b.c")
	is(b, w.Codes.Sends(), 2)
}

// The type declarations fit the templates of React and Vue, and each declaration also compiles in a
// project without the framework.
func TestWidgetTypes(t *testing.T) {
	t.Parallel()
	for file, declarations := range map[string][]string{
		"types.tsx":   {"widget.d.ts", "client.d.ts"},
		"widget.d.ts": {"widget.d.ts"}, "client.d.ts": {"client.d.ts"},
	} {
		dir, modules := frameworks(t)
		for _, name := range declarations {
			write(t, dir, name, read(t, "../../../web/widget/"+name))
		}
		if file == "types.tsx" { // the other files are checked without React and Vue
			servertest.OK(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
		}
		check := exec.CommandContext(t.Context(), "node", filepath.Join(modules, "typescript/bin/tsc"), "--noEmit",
			"--skipDefaultLibCheck", "--strict", "--jsx", "react-jsx",
			"--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", file)
		check.Dir = dir
		if said, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", file, err, said)
		}
	}
}

// frameworks copies the applications of testdata to the folder dir, and returns dir and the folder
// of the modules that they import.
func frameworks(t *testing.T) (dir, modules string) {
	t.Helper()
	const source = "testdata/frameworks"
	modules, dir = servertest.NodeModules(t, source), t.TempDir()
	servertest.OK(t, os.CopyFS(dir, os.DirFS(source)))
	return dir, modules
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	servertest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// application bundles an application of testdata into one script. component is the file with the
// application's SignIn, or "" if the application needs none.
func application(t *testing.T, entry, component string) string {
	t.Helper()
	dir, modules := frameworks(t)
	switch filepath.Ext(component) {
	case ".jsx":
		write(t, dir, "SignIn.jsx", read(t, component))
	case ".vue":
		compile := exec.CommandContext(t.Context(), "node", "compile.cjs")
		compile.Dir, compile.Env = dir, append(os.Environ(), "NODE_PATH="+modules)
		compile.Stdin, compile.Stderr = strings.NewReader(read(t, component)), t.Output()
		script, err := compile.Output()
		servertest.OK(t, err)
		write(t, dir, "SignIn.js", string(script))
	}
	built := api.Build(api.BuildOptions{
		EntryPoints: []string{filepath.Join(dir, entry)}, NodePaths: []string{modules}, Bundle: true,
		Format: api.FormatESModule, JSX: api.JSXAutomatic,
		MinifyWhitespace: true, Define: map[string]string{
			"process.env.NODE_ENV": `"development"`, "__VUE_OPTIONS_API__": "false", "__VUE_PROD_DEVTOOLS__": "false",
			"__VUE_PROD_HYDRATION_MISMATCH_DETAILS__": "false",
		},
	})
	for _, problem := range built.Errors {
		t.Fatal(problem.Text, problem.Location)
	}
	return string(built.OutputFiles[0].Contents)
}
