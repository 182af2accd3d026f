package reference_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
	"sendcode/web"
)

// The list of operations stays in view, requests and answers stand beside the text, code can be
// copied, and the search finds titles. On a telephone, a page begins with its title and does not
// scroll sideways.
func TestReadingTheReference(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc(web.StaticPath, web.ServeStatic)
	mux.Handle("/", documents())
	site := httptest.NewServer(mux)
	defer site.Close()
	tab := browsertest.Chromium(t).Open(t, browsertest.Look{Width: 1280, Height: 800})
	p := browsertest.NewPage(t, tab, site.URL+"/docs", "")
	p.Until(`document.querySelectorAll('pre button').length > 20`)
	servertest.Same(t, "the tasks at the start, above all else", browsertest.Value[string](p,
		`[...document.querySelectorAll('.tasks h3 a')].map((a) => a.hash).join() + ' ' + (document.querySelector('.tasks').getBoundingClientRect().bottom < innerHeight)`),
		"#send,#check,#redeemProof true")
	servertest.Same(t, "conventions come last", browsertest.Value[string](p, `[...document.querySelectorAll('main h2')].at(-1).id`), "requests")
	p.Go(site.URL + "/docs#check")
	p.Until(`(list => list.top >= 0 && list.bottom <= innerHeight && list.height > 700)(document.querySelector('#contents').getBoundingClientRect())`)
	p.Until(`(([words, code]) => code.left > words.right && code.top < words.top + 200 && code.right < innerWidth)(` +
		`['h4 ~ dl', '.examples'].map((at) => document.querySelector('#check ' + at).getBoundingClientRect()))`)
	browsertest.Value[bool](p, `navigator.clipboard.writeText = async (text) => { window.copied = text; }, true`)
	browsertest.Value[bool](p, `document.querySelector('#check pre button').click(), true`)
	p.Until(`copied.includes('/check" \\\n') && copied.endsWith("'") && document.querySelector('#check pre button').textContent === 'Copied'`)
	p.Fill("#contents input", "without an id check")
	p.Until(`[...document.querySelectorAll('#contents li')].filter((item) => item.checkVisibility()).length === 1`)
	servertest.OK(t, p.Keys("\r"))
	p.Until(`location.hash === '#checkNamed'`)
	p.Fill("#contents input", "supabase auth")
	p.Until(`[...document.querySelectorAll('#contents li')].filter((item) => item.checkVisibility()).map((item) => item.firstChild.pathname).join() === '/docs/supabase'`)
	p.Fill("#contents input", "zzzz")
	p.Shows("#contents [role=status]", "No title has these words.")
	servertest.Same(t, "names of Copy that say what is copied", browsertest.Value[bool](p,
		`(([all, some]) => some.size > all.length / 2)([[...document.querySelectorAll('pre button')], new Set([...document.querySelectorAll('pre button')].map((b) => b.ariaLabel))])`), true)
	servertest.OK(t, p.Show(browsertest.Look{Width: 320, Height: 568, Dark: true}))
	p.Go(site.URL + "/docs/sms.zh-CN")
	servertest.Same(t, "its language", browsertest.Value[string](p, `document.documentElement.lang`), "zh-CN")
	p.Go(site.URL + "/docs/#check") // an address of the page, with a slash
	p.Until(`location.pathname === '/docs' && document.querySelector('#check .examples').checkVisibility()`)
	p.Until(`(({ top }) => top >= 0 && top < 100)(document.querySelector('#check').getBoundingClientRect())`)
	p.Go(site.URL + "/docs")
	p.Until(`document.querySelector('#send.folded') && !document.querySelector('#send .examples').checkVisibility()`)
	p.Until(`document.documentElement.scrollHeight < 40 * innerHeight && document.querySelector('#contents').offsetHeight < 60`)
	p.Shot("telephone")
	browsertest.Value[bool](p, `document.querySelector('#contents summary').click(), true`)
	p.Until(`document.querySelector('#contents a[href="#cancel"]').checkVisibility()`)
	browsertest.Value[bool](p, `document.querySelector('#contents a[href="#cancel"]').click(), true`)
	p.Until(`document.querySelector('#cancel .examples').checkVisibility() && document.querySelector('#contents').offsetHeight < 60`)
	browsertest.Value[bool](p, `document.querySelector('#cancel h3 > a').click(), true`)
	p.Until(`!document.querySelector('#cancel .examples').checkVisibility()`)
	files, err := filepath.Glob("../../../docs/*.md")
	servertest.OK(t, err)
	for _, name := range append(files, "") {
		name = strings.TrimSuffix(filepath.Base(name), ".md")
		p.Go(site.URL + strings.TrimSuffix("/docs/"+name, "/."))
		p.Fits(name)
		p.Until(`document.querySelector('h1').getBoundingClientRect().bottom < innerHeight / 2`)
	}
}
