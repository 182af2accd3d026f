package page_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"sendcode/internal/http/api"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
)

// TestMain runs four tests in parallel on any machine, since tests in browsers mostly wait.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4")
	os.Exit(m.Run())
}

// The browser tests share one browser and the axe-core of Chromium; each test has a tab with its
// own cookies. They test what other tests cannot: scripts, focus, clocks, tabs, the connection, and
// the look of pages. testdata/cards.json says which card is shown when.
func TestInABrowser(t *testing.T) {
	browser, engine := chromium(t)
	inTabs(t, browser, theWholeWay, theCountdownRunsOut, aPageFromTheCacheShowsTheTruth,
		lettersThroughAnInputMethod, aPressIsNotLost, numbersWhileTheyAreTyped, aWidgetsRefusal,
		aWidgetOnAPageThatMayNot, aWidgetAndAnOutage, aWidgetContinues, aWidgetBehindAPagesTools,
		aWidgetsAnswerIsLost, theAnswerToACodeIsLost, anotherOneAnswers, aWidgetBesideToJSON, browsersThatLack,
		aWidgetIsMoved, aWidgetIsDrawnAgain, aConfirmationEnds, aLateAnswerMovesNoFocus, aLateAnswerInAFrame,
		aMessagesCodeMovesNoFocus, aLateAnswerBringsTheFocus, aWidgetThatIsRequired,
		aWidgetGivesNoProofToAnAddress, aWidgetKeepsTheContractOfAField,
		aPressOnTextSelectsText, aWidgetTellsItsPage,
		aWidgetIsResetWhileItAsks, aWidgetMakesOneRequestAtFirst, aWidgetHasTheBrandOfItsApp,
		aWidgetByPhone, aWidgetsOtherChannel, aWidgetWithoutTextMessages, propertiesAreSetBeforeTheScript,
		theTableOfCards, wrongCodes, aCorrectionIsNotLost, aFillersText, aReaderWithoutATimeZone,
		otherTabsHearOfTheApproval, anotherTabChangesTheAddress, backLeadsToTheCode, aTabIsOpenDuringAnUpdate,
		aReloadKeepsTheConfirmedCard, theFirstCardWaitsForNoNumbers, offline,
		aBrowserThatIsWrongAboutItsConnection, aFailureIsSaidUntilTheNextAct, aChangeOfClocks,
		aWidgetFollowsItsPagesLanguage, aReturnByItself, aCodeFromATextMessage,
		aBounceChangesTheCard, aWidgetKeepsTokens, aWidgetSolvesAWorkChallenge, strangersAreAsked,
		workReplacesAVendorThatFails, aWidgetWithoutACheck,
		aWidgetWhoseVendorIsBlocked, aPageShowsItsOwnCheck, aWidgetsVendorIsTakenAway, aVendorUnderADialog)
	inNewTabs(t, browser, guests...)
	t.Run("aWidgetShowsAVendor", func(t *testing.T) {
		t.Parallel()
		aWidgetShowsAVendor(t, browser, engine)
	})
	t.Run("theMainCards", func(t *testing.T) {
		t.Parallel()
		theMainCards(t, browser, engine)
	})
}

// chromium starts a browser in which tests open tabs, and loads axe-core.
func chromium(t *testing.T) (context.Context, *pagetest.Axe) {
	t.Helper()
	engine, err := pagetest.LoadAxe(t.Context(), servertest.Chromium(t))
	servertest.OK(t, err)
	browser, end := browsertest.StartChromium(context.Background(), servertest.HeadlessShell(t))
	t.Cleanup(end)
	if err := chromedp.Do(browser); err != nil { // starts the browser before tabs are opened in parallel
		t.Fatal(err)
	}
	return browser, engine
}

// inTabs runs tests in parallel, each named after its function.
func inTabs(t *testing.T, browser context.Context, tests ...func(*testing.T, context.Context)) {
	t.Helper()
	for _, test := range tests {
		t.Run(nameOf(test), func(t *testing.T) {
			t.Parallel()
			test(t, browser)
		})
	}
}

// nameOf returns a function's name without its package.
func nameOf(function any) string {
	name := runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// tab is a test's tab, which shows a world's page or a site with the widget.
type tab struct {
	*testing.T
	ctx   context.Context
	world *pagetest.World
	root  string // expression for the root of the card: the document, or a widget's shadow tree

	mu       sync.Mutex
	console  []string
	tolerate string // part of a console message that the test causes
}

const glance = 25 * time.Millisecond

// watchScript is a script that runs in each page before all others. It records the texts of the
// status line and the delay of each timer, and lets a test stop and move both clocks.
const watchScript = `(() => {
  window.said = []; window.naps = [];
  let wall = 0, steady = 0, halted, stopped;
  const date = Date.now.bind(Date), mono = performance.now.bind(performance);
  Date.now = () => (halted ?? date()) + wall;
  performance.now = () => (stopped ?? mono()) + steady;
  window.jump = (w, s) => { wall += w; steady += s; };
  window.freeze = () => { halted = date(); stopped = mono(); performance.getEntriesByType = () => [{ responseStart: stopped }]; };
  const sleep = setTimeout;
  window.setTimeout = (run, ms, ...more) => { naps.push(ms); return sleep(run, ms, ...more); };
  const note = (list, text) => { if (text && list.at(-1) !== text) list.push(text); };
  addEventListener('DOMContentLoaded', () => {
    customElements.whenDefined('send-code').then(() => {
      const root = document.querySelector('send-code')?.shadowRoot;
      if (root) new MutationObserver(() => note(said, root.querySelector('#say')?.textContent)).observe(root, { subtree: true, childList: true, characterData: true });
    });
  });
})()`

func open(t *testing.T, browser context.Context, w *pagetest.World, look browsertest.Look) *tab {
	t.Helper()
	ctx, end := browsertest.ChromiumTab(browser)
	t.Cleanup(end)
	// most tests take much less: 1,000 simulated people take about five minutes on an idle machine
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	t.Cleanup(cancel)
	look.Lang, look.Zone = cmp.Or(look.Lang, "en"), cmp.Or(look.Zone, "Etc/GMT-1") // not UTC, which the page treats as an unknown zone
	if look.Width == 0 {
		look.Width, look.Height = 800, 700
	}
	b := &tab{T: t, ctx: ctx, world: w, root: `document.querySelector('send-code').shadowRoot`}
	b.listen()
	b.do(look.Apply())
	b.first(watchScript)
	if w.ID != "" { // this browser has the verification of the world's person
		b.first(fmt.Sprintf("try { sessionStorage.begun ??= (localStorage.setItem('sendcode %s default ', '%s'), 'yes') } catch {}",
			api.PageKey("shop"), w.ID))
	}
	return b
}

// visiting returns a tab that shows the page.
func visiting(t *testing.T, browser context.Context, w *pagetest.World) *tab {
	t.Helper()
	b := open(t, browser, w, browsertest.Look{})
	b.visit("")
	return b
}

// first makes a script run in each page before all others, except those that first added earlier.
func (t *tab) first(script string) {
	t.Helper()
	t.do(browsertest.Command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script}))
}

// listen fails the test on every error or warning that the browser reports and that the test does
// not tolerate. Violations of the content security policy are such errors.
func (t *tab) listen() {
	messages := chromedp.Console(t.ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			t.mu.Lock()
			if m.Type == "error" || m.Type == "warning" || m.IsException() {
				t.console = append(t.console, fmt.Sprintf("%s %s: %s", m.Source, m.Type, m.Text))
			}
			t.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, m := range t.console {
			if t.tolerate == "" || !strings.Contains(m, t.tolerate) {
				t.Errorf("the browser says: %s", m)
			}
		}
	})
}

// consoleHas reports whether the browser's console has a message with this text.
func (t *tab) consoleHas(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Contains(strings.Join(t.console, "\n"), text)
}

func (t *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	servertest.OK(t, chromedp.Do(t.ctx, steps...))
}

func (t *tab) visit(query string) {
	t.Helper()
	t.do(chromedp.Navigate(t.world.URL + query))
}

func eval[T any](b *tab, expression string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
}

// run evaluates expressions for their effects.
func (t *tab) run(expressions ...string) {
	t.Helper()
	eval[bool](t, strings.Join(append(expressions, "true"), ", "))
}

// until waits for an expression to hold.
func (t *tab) until(expression string) {
	t.Helper()
	t.await(expression, func() bool {
		ok, err := chromedp.Run(t.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && ok // an error means that the browser is leaving the page
	})
}

func (t *tab) await(what string, holds func() bool) {
	t.Helper()
	tick, late := time.NewTicker(glance), time.After(servertest.Patience)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("still not: %s; fields %s; the page says: %s", what,
				eval[string](t, "JSON.stringify([document.activeElement.id, ...[...document.querySelectorAll('input')].map((e) => e.value)])"),
				eval[string](t, "document.body.innerText + ("+t.root+".querySelector('#card')?.parentElement.innerText)"))
		}
	}
}

// q returns an expression for an element in the card's root.
func (t *tab) q(selector string) string { return fmt.Sprintf("%s.querySelector(%q)", t.root, selector) }

// card waits for a card of this kind that contains all words.
func (t *tab) card(kind string, words ...string) {
	t.Helper()
	t.until(t.q("#card") + fmt.Sprintf("?.dataset.kind === %q", kind))
	for _, w := range words {
		t.until(
			fmt.Sprintf(
				"((card) => [card.innerText, ...[...card.querySelectorAll('details:not([open]) .pips')].map((folded) => folded.textContent)]"+
					".join(' ').replace(/\\s+/g, ' ').includes(%q))(%s)", w, t.q("#card")))
	}
}

// value returns the text of a field.
func (t *tab) value(selector string) string {
	t.Helper()
	return eval[string](t, t.q(selector)+".value")
}

// clear empties a field and puts the focus into it.
func (t *tab) clear(id string) {
	t.Helper()
	t.focus(id)
	t.run(t.q("#"+id) + `.value = ''`)
}

func (t *tab) keys(keys string) { t.Helper(); t.do(chromedp.KeyEvent(keys)) }

// types presses keys in a field; fills empties the field before.
func (t *tab) types(id, keys string) { t.Helper(); t.focus(id); t.keys(keys) }
func (t *tab) fills(id, keys string) { t.Helper(); t.clear(id); t.keys(keys) }

// getsIn enters the right code, and waits for the confirmed card with these words.
func (t *tab) getsIn(words ...string) {
	t.Helper()
	t.focus("code")
	t.paste(pagetest.Code)
	t.card("approved", words...)
}

// focus and click find their element at the last moment, since the card may be replaced at any
// time.
func (t *tab) focus(id string) {
	t.Helper()
	t.until(t.q("#"+id) + "?.checkVisibility()")
	t.run(t.q("#"+id) + ".focus()")
}

func (t *tab) click(selector string) { t.Helper(); t.press(selector, 1) }

func (t *tab) press(selector string, times int) {
	t.Helper()
	at := t.middle(selector)
	for n := range times {
		t.do(chromedp.MouseClickXY(at[0], at[1], func(p *input.DispatchMouseEventParams) { p.ClickCount = int64(n + 1) }))
	}
}

// middle waits for an element, unfolds it, scrolls to it, and returns the position of its middle.
func (t *tab) middle(selector string) []float64 {
	t.Helper()
	t.until(t.q(selector))
	return eval[[]float64](t, `(() => { const e = `+t.q(selector)+`;
		e.closest('summary') || e.closest('details')?.setAttribute('open', ''); e.scrollIntoView({ block: 'center' });
		const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()`)
}

// paste inserts text as a paste does: all of it in one input event.
func (t *tab) paste(text string) {
	t.Helper()
	t.do(browsertest.Command(input.InsertText, input.InsertTextParams{Text: text}))
}

func (t *tab) focused(id string) {
	t.Helper()
	t.until(fmt.Sprintf("%s.activeElement?.id === %q", t.root, id))
}

// says waits until the last text for screen readers begins with text.
func (t *tab) says(text string) {
	t.Helper()
	t.until(fmt.Sprintf("said.at(-1)?.startsWith(%q)", text))
}

// returnScript is a script that makes the page act as when a person returns to it.
const returnScript = `document.dispatchEvent(new Event('visibilitychange'))`

// jump moves both clocks of the browser, the wall clock and the steady clock, and makes the page
// read them.
func (t *tab) jump(wall, steady time.Duration) {
	t.Helper()
	t.run(fmt.Sprintf("jump(%d, %d)", wall.Milliseconds(), steady.Milliseconds()), returnScript)
}

// pass moves the server's clock and the browser's wall clock forward, as if the machine had slept.
func (t *tab) pass(d time.Duration) { t.Helper(); t.world.Advance(d); t.jump(d, 0) }

// ready waits until the person can request another code.
func (t *tab) ready() { t.Helper(); t.until(t.q("#again:not([aria-disabled])")) }

// left returns the seconds that the button shows as m:ss.
func (t *tab) left() int {
	t.Helper()
	var m, s int
	text := eval[string](t, t.q("#again")+`.innerText.replace(/\s+/g, ' ').trim()`)
	if n, _ := fmt.Sscanf(text[strings.LastIndexByte(text, ' ')+1:], "%d:%d", &m, &s); n != 2 {
		t.Fatalf("the button says %q", text)
	}
	return 60*m + s
}

// counts fails the test unless the button counts down a minute that began later than from, however
// long the machine has taken since.
func (t *tab) counts(from time.Time) {
	t.Helper()
	if left := t.left(); left > 60 || left < 59-int(time.Since(from)/time.Second) {
		t.Errorf("%d s are left of 60, %v after the request", left, time.Since(from))
	}
}

// nothingKept fails the test if the page's URL or the browser's storage has any data of a person.
func (t *tab) nothingKept() {
	t.Helper()
	kept := eval[string](t, `JSON.stringify([location.href, history.state, {...localStorage}, {...sessionStorage}, document.cookie])`)
	containsNone(t, strings.ReplaceAll(kept, pagetest.PublicKey, ""), "ana", "example", "23456789", "3456789", pagetest.Code)
}
