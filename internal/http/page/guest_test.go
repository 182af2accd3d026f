package page_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
)

// guest is a widget on another site's page, in any of the three browsers.
type guest struct {
	*browsertest.Page
	world *pagetest.World
}

// guests are tests that run in every browser: in Chromium with make test, and in the others with
// `make nightly`.
var guests = []func(*testing.T, *browsertest.Tab){
	answersMoveNoFocus, answersMoveNoFocusOutOfASlot, answersMoveNoFocusOutOfAFrame, aRedrawnWidgetKeepsTheFocus,
	aNewCardWaitsForAnInputMethod, aLateAutofocusFollowsTheBrowser,
	othersAnswerEachRequest, answersWithoutStatusOrHeaders, aCacheAnswersLooks, aServiceWorker,
	aWrongConclusionIsCorrected, aModuleNeverComes,
	aWorkerOfAnotherScript, aScriptErrorEndsTheWait,
	aProofEndsBeforeATick, aClockThatIsWrong, aClockThatIsSet, aReloadWithAWrongClock, anOldAnswerToASend, durationsGrowWithoutATimeZone,
	eachUseOfAnEndedProofFails, aCodeEndsWhileATabSleeps, anOfferEndsWhileATabSleeps, aNumberBeforeTheCountries, aChoiceShowsItsField,
	aBrowserAlwaysReportsOffline, aBrowserReportsOfflineAtTheFirstCard, backAfterTheConfirmation,
	aDuplicatedTab, theFieldHasRoomForAFillersMark,
	wrongHintsChangeNothing, aMessageWithoutACode, aPageOfXHTML,
}

// tools are scripts that each page of a guest runs first. holding returns whether the answer to a
// request is held back, until held.shift()() lets it go. instead returns what arrives in place of
// the service's answer; undefined: the service answers. asked has each request to the API.
const tools = eventScript + `;
(() => {
  const real = fetch;
  Object.assign(window, { real, held: [], asked: [], said: [], faults: [], holding: () => false, instead: () => undefined });
  window.fetch = async (to, how = {}) => {
    const url = String(to.url ?? to), method = how.method ?? to.method ?? 'GET', path = new URL(url, location).pathname;
    if (path.includes('/v1/')) asked.push(method + ' ' + path);
    const other = await instead(method, path, how, url);
    if (other instanceof Error) throw other;
    if (other) return other;
    const answer = await real(to, how);
    if (holding(method, path)) await new Promise((go) => held.push(go));
    return answer;
  };
  addEventListener('unhandledrejection', ({ reason }) => faults.push(String(reason?.stack ?? reason)));
  addEventListener('error', ({ error }) => error && faults.push(String(error.stack ?? error)));
  window.told = (el) => new MutationObserver(() => {
    const text = el.shadowRoot.querySelector('#say').textContent;
    if (text && said.at(-1) !== text) said.push(text);
  }).observe(el.shadowRoot, { subtree: true, childList: true, characterData: true });
  customElements.whenDefined('send-code').then(() => {
    window.el ??= document.querySelector('send-code');
    if (window.el) told(el);
  });
})();
`

// visits opens a site's page with this body in a tab. The script runs before the widget's. In the
// page, el is the element under test, at first the page's first widget.
func visits(t *testing.T, tab *browsertest.Tab, w *pagetest.World, body, script string) *guest {
	t.Helper()
	g := &guest{&browsertest.Page{TB: t, Tab: tab, Root: "window.el?.shadowRoot"}, w}
	g.Go(siteOf(t, w, body, script).URL)
	return g
}

// siteOf starts the site of a guest. The site's content security policy allows everything.
func siteOf(t *testing.T, w *pagetest.World, body, script string) *pagetest.Site {
	t.Helper()
	s := pagetest.NewSite("", func() (policy, head, markup string) {
		return "", `<link rel="icon" href="data:,"><script src="/own.js"></script><script type="module" src="` + w.URL +
			`widget.js"></script>`, strings.ReplaceAll(body, "SERVICE/", w.URL)
	})
	t.Cleanup(s.Close)
	s.Script = tools + strings.ReplaceAll(script, "SERVICE/", w.URL)
	w.Allow(s.Origin())
	return s
}

// inNewTabs runs tests of guests in parallel, each in its own tab.
func inNewTabs(t *testing.T, browser context.Context, tests ...func(*testing.T, *browsertest.Tab)) {
	t.Helper()
	for _, test := range tests {
		t.Run(nameOf(test), func(t *testing.T) {
			t.Parallel()
			ctx, end := browsertest.ChromiumTab(browser)
			t.Cleanup(end)
			tab := browsertest.InChromium(ctx)
			servertest.OK(t, tab.Show(browsertest.Look{Width: 800, Height: 700, Lang: "en", Zone: "Etc/GMT-1"}))
			test(t, tab)
		})
	}
}

// run evaluates expressions for their effects.
func (g *guest) run(expressions ...string) {
	g.Helper()
	browsertest.Value[bool](g.Page, "("+strings.Join(append(expressions, "true"), ", ")+")")
}

// card waits for a card of this kind that contains all words.
func (g *guest) card(kind string, words ...string) {
	g.Helper()
	g.Shows(fmt.Sprintf("#card[data-kind=%q]", kind), words...)
}

func (g *guest) keys(text string) { g.Helper(); servertest.OK(g, g.Keys(text)) }

func (g *guest) is(expression string) {
	g.Helper()
	if !browsertest.Value[bool](g.Page, "!!("+expression+")") {
		g.Errorf("it does not hold: %s", expression)
	}
}

// rest lets time pass during which nothing may happen.
func (g *guest) rest() {
	g.Helper()
	g.run(fmt.Sprintf("await new Promise((go) => setTimeout(go, %d))", longer.Milliseconds()))
}

// says waits until the status line begins with a text.
func (g *guest) says(text string) {
	g.Helper()
	g.Until(fmt.Sprintf("said.at(-1)?.startsWith(%q)", text))
}

// wantNoScriptErrors fails the test if a script of the page has thrown, or if a promise was
// rejected without a handler.
func (g *guest) wantNoScriptErrors() {
	g.Helper()
	servertest.Same(g, "failures of scripts", browsertest.Value[string](g.Page, "faults.join()"), "")
}

// asks requests a code for an address at the first card.
func (g *guest) asks(to string) { g.Helper(); g.card("ask"); g.Fill("#to", to+"\r") }

// enters enters a code, which the field submits by itself.
func (g *guest) enters(code string) { g.Helper(); g.card("code"); g.Fill("#code", code) }
