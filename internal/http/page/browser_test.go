package page_test

import (
	"cmp"
	"context"
	"fmt"
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

// The browser's tests share one browser, and Chromium's axe-core; each has a tab with cookies of its own.
// They show what no other test can: scripts, focus, clocks, tabs, the connection, and how pages
// look. Which card is shown when is in testdata/cards.json.
func TestInABrowser(t *testing.T) {
	browser, engine := chromium(t)
	inTabs(t, browser, theWholeWay, theCountdownRunsOut, aPageFromTheCacheShowsTheTruth, lettersThroughAnInputMethod,
		aPressIsNotLost, numbersWhileTheyAreTyped, aWidgetsRefusal, aWidgetOnAPageThatMayNot,
		aWidgetAndAnOutage, aWidgetContinues, aWidgetBehindAPagesTools, aWidgetsAnswerIsLost, theAnswerToACodeIsLost, browsersThatLack,
		aWidgetIsMoved, aWidgetIsDrawnAgain,
		severalWidgets, aWidgetThatIsRequired, aWidgetGivesNoProofToAnAddress, aWidgetKeepsTheContractOfAField, aWidgetUnderForeignCSS, aWidgetInTheReadersSize, aWidgetTellsItsPage, aWidgetIsResetWhileItAsks,
		aWidgetIsOneRequest, aWidgetIsItsApps, aWidgetByItsDocumentation, aWidgetByPhone, aWidgetsOtherChannel,
		aWidgetWithoutTextMessages, aWidgetHasPropertiesEarly, theTableOfCards, wrongCodes, aFillersText, aReaderWithoutATimeZone, otherTabsHearOfTheApproval, backLeadsToTheCode, aTabOverAnUpdate, aReloadKeepsTheConfirmedCard, theFirstCardWaitsForNoNumbers, offline, aFailureIsSaidUntilTheNextAct, aChangeOfClocks, aWidgetSpeaksALanguage,
		aReturnByItself, aCodeFromATextMessage, aBounceChangesTheCard, aWidgetKeepsTokens,
		aWidgetWorks, aWidgetLeavesAVendor, aWidgetWithoutACheck, aWidgetWhoseVendorIsBlocked, aWidgetsPageAsksItself, theWorkIsSHA256)
	t.Run("aWidgetShowsAVendor", func(t *testing.T) {
		t.Parallel()
		aWidgetShowsAVendor(t, browser, engine)
	})
	t.Run("theMainCards", func(t *testing.T) {
		t.Parallel()
		theMainCards(t, browser, engine)
	})
}

// chromium starts a browser.
func chromium(t *testing.T) (context.Context, *pagetest.Axe) {
	t.Helper()
	engine, err := pagetest.LoadAxe(t.Context(), servertest.Chromium(t))
	servertest.OK(t, err)
	browser, end := browsertest.StartChromium(context.Background(), servertest.HeadlessShell(t))
	t.Cleanup(end)
	if err := chromedp.Do(browser); err != nil { // it is started, before tabs are opened side by side
		t.Fatal(err)
	}
	return browser, engine
}

// inTabs runs tests beside each other, each named after its function.
func inTabs(t *testing.T, browser context.Context, tests ...func(*testing.T, context.Context)) {
	t.Helper()
	for _, test := range tests {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		t.Run(name[strings.LastIndexByte(name, '.')+1:], func(t *testing.T) {
			t.Parallel()
			test(t, browser)
		})
	}
}

// tab is a tab on a world's page.
type tab struct {
	*testing.T
	ctx   context.Context
	world *pagetest.World
	root  string // expression for what holds the card: the document, or a widget's shadow tree

	mu       sync.Mutex
	console  []string
	tolerate string // part of a console message that the test brings about
}

const glance = 25 * time.Millisecond

// watching runs in each page before anything else. It records what the status line said, each text
// of the countdown and the delay of each timer, and lets a test stop and move the two clocks.
const watching = `(() => {
  window.said = []; window.shown = []; window.naps = [];
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
	// far more than a test takes: 1,000 schedules need some five on a quiet machine
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	t.Cleanup(cancel)
	look.Lang, look.Zone = cmp.Or(look.Lang, "en"), cmp.Or(look.Zone, "Etc/GMT-1") // no UTC, which tells no zone
	if look.Width == 0 {
		look.Width, look.Height = 800, 700
	}
	b := &tab{T: t, ctx: ctx, world: w, root: `document.querySelector('send-code').shadowRoot`}
	b.listen()
	b.do(look.Apply())
	b.first(watching)
	if w.ID != "" { // what the world's person has asked for, this browser has
		b.first(fmt.Sprintf("try { sessionStorage.begun ??= (localStorage.setItem('sendcode %s default ', '%s'), 'yes') } catch {}", api.PageKey("shop"), w.ID))
	}
	return b
}

// visiting is open at the page.
func visiting(t *testing.T, browser context.Context, w *pagetest.World) *tab {
	t.Helper()
	b := open(t, browser, w, browsertest.Look{})
	b.visit("")
	return b
}

// first runs a script in each page before anything else, after those that do so already.
func (b *tab) first(script string) {
	b.Helper()
	b.do(browsertest.Command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script}))
}

// listen fails the test on every error that the browser reports, violations of the policy among
// them.
func (b *tab) listen() {
	messages := chromedp.Console(b.ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			b.mu.Lock()
			if m.Type == "error" || m.Type == "warning" || m.IsException() {
				b.console = append(b.console, fmt.Sprintf("%s %s: %s", m.Source, m.Type, m.Text))
			}
			b.mu.Unlock()
		}
	}()
	b.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, m := range b.console {
			if b.tolerate == "" || !strings.Contains(m, b.tolerate) {
				b.Errorf("the browser says: %s", m)
			}
		}
	})
}

// told reports whether the console has a message for the page's developer.
func (b *tab) told(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(strings.Join(b.console, "\n"), text)
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	servertest.OK(b, chromedp.Do(b.ctx, steps...))
}

func (b *tab) visit(query string) {
	b.Helper()
	b.do(chromedp.Navigate(b.world.URL + query))
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
func (b *tab) run(expressions ...string) {
	b.Helper()
	eval[bool](b, strings.Join(append(expressions, "true"), ", "))
}

// until waits for an expression to hold.
func (b *tab) until(expression string) {
	b.Helper()
	b.await(expression, func() bool {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && ok // an error: the page is just being left
	})
}

func (b *tab) await(what string, holds func() bool) {
	b.Helper()
	tick, late := time.NewTicker(glance), time.After(servertest.Patience)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			b.Fatalf("still not: %s; fields %s; the page says: %s", what,
				eval[string](b, "JSON.stringify([document.activeElement.id, ...[...document.querySelectorAll('input')].map((e) => e.value)])"),
				eval[string](b, "document.body.innerText + ("+b.root+".querySelector('#card')?.parentElement.innerText)"))
		}
	}
}

// q is an expression for an element of what holds the card.
func (b *tab) q(selector string) string { return fmt.Sprintf("%s.querySelector(%q)", b.root, selector) }

// card waits for a card of the kind that says all of the words.
func (b *tab) card(kind string, words ...string) {
	b.Helper()
	b.until(b.q("#card") + fmt.Sprintf("?.dataset.kind === %q", kind))
	for _, w := range words {
		b.until(
			fmt.Sprintf(
				"((card) => [card.innerText, ...[...card.querySelectorAll('details:not([open]) .pips')].map((folded) => folded.textContent)]"+
					".join(' ').replace(/\\s+/g, ' ').includes(%q))(%s)", w, b.q("#card")))
	}
}

// value is what is in a field.
func (b *tab) value(selector string) string {
	b.Helper()
	return eval[string](b, b.q(selector)+".value")
}

// clear empties a field and puts the focus into it.
func (b *tab) clear(id string) {
	b.Helper()
	b.focus(id)
	b.run(b.q("#"+id) + `.value = ''`)
}

func (b *tab) keys(keys string) { b.Helper(); b.do(chromedp.KeyEvent(keys)) }

// types presses keys in a field; fills empties the field before.
func (b *tab) types(id, keys string) { b.Helper(); b.focus(id); b.keys(keys) }
func (b *tab) fills(id, keys string) { b.Helper(); b.clear(id); b.keys(keys) }

// getsIn enters the right code, and waits for the card that says so in all of the words.
func (b *tab) getsIn(words ...string) {
	b.Helper()
	b.focus("code")
	b.paste(pagetest.Code)
	b.card("approved", words...)
}

// focus and click find their element at the last moment, as the card may be swapped at any time.
func (b *tab) focus(id string) {
	b.Helper()
	b.until(b.q("#"+id) + "?.checkVisibility()")
	b.run(b.q("#"+id) + ".focus()")
}

func (b *tab) click(selector string) { b.Helper(); b.press(selector, 1) }

func (b *tab) press(selector string, times int) {
	b.Helper()
	at := b.middle(selector)
	for n := range times {
		b.do(chromedp.MouseClickXY(at[0], at[1], func(p *input.DispatchMouseEventParams) { p.ClickCount = int64(n + 1) }))
	}
}

// middle unfolds an element, scrolls to it and says where it then is.
func (b *tab) middle(selector string) []float64 {
	b.Helper()
	return eval[[]float64](b, `(() => { const e = `+b.q(selector)+`;
		e.closest('summary') || e.closest('details')?.setAttribute('open', ''); e.scrollIntoView({ block: 'center' });
		const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()`)
}

// paste puts text in as the clipboard does: at once, as one input.
func (b *tab) paste(text string) {
	b.Helper()
	b.do(browsertest.Command(input.InsertText, input.InsertTextParams{Text: text}))
}

func (b *tab) focused(id string) {
	b.Helper()
	b.until(fmt.Sprintf("%s.activeElement?.id === %q", b.root, id))
}

// says waits until a screen reader was last told a text that begins so.
func (b *tab) says(text string) {
	b.Helper()
	b.until(fmt.Sprintf("said.at(-1)?.startsWith(%q)", text))
}

// looks is what the page does when it is looked at again.
const looks = `document.dispatchEvent(new Event('visibilitychange'))`

// jump moves the browser's clocks, that of the day and the steady one, and has the page look at
// them.
func (b *tab) jump(wall, steady time.Duration) {
	b.Helper()
	b.run(fmt.Sprintf("jump(%d, %d)", wall.Milliseconds(), steady.Milliseconds()), looks)
}

// pass has time pass at the server, and at the browser as in a sleep.
func (b *tab) pass(d time.Duration) { b.Helper(); b.world.Advance(d); b.jump(d, 0) }

// ready waits until another code can be asked for.
func (b *tab) ready() { b.Helper(); b.until(b.q("#again:not([aria-disabled])")) }

// left reads m:ss from the button, in seconds.
func (b *tab) left() int {
	b.Helper()
	var m, s int
	text := eval[string](b, b.q("#again")+`.innerText.replace(/\s+/g, ' ').trim()`)
	if n, _ := fmt.Sscanf(text[strings.LastIndexByte(text, ' ')+1:], "%d:%d", &m, &s); n != 2 {
		b.Fatalf("the button says %q", text)
	}
	return 60*m + s
}

// counts: the button counts down a minute that began after a moment, however long the machine has
// taken since.
func (b *tab) counts(from time.Time) {
	b.Helper()
	if left := b.left(); left > 60 || left < 59-int(time.Since(from)/time.Second) {
		b.Errorf("%d s are left of 60, %v after the request", left, time.Since(from))
	}
}

// nothingKept fails when the address or the storage of the browser holds anything of a person.
func (b *tab) nothingKept() {
	b.Helper()
	kept := eval[string](b, `JSON.stringify([location.href, history.state, {...localStorage}, {...sessionStorage}, document.cookie])`)
	silent(b, strings.ReplaceAll(kept, pagetest.PublicKey, ""), "ana", "example", "23456789", "3456789", pagetest.Code)
}
