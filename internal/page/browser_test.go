package page_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"sendcode/internal/page/pagetest"
	"sendcode/internal/parts"
)

// The browser's tests share one Chromium; each has a tab with cookies of its own.
func TestInABrowser(t *testing.T) {
	browser, end := pagetest.Browser(context.Background(), parts.Chromium(t))
	t.Cleanup(end)
	if err := chromedp.Do(browser); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(*testing.T, context.Context){
		"the whole way":                                     theWholeWay,
		"the countdown runs out":                            theCountdownRunsOut,
		"a reload moves nothing":                            aReloadMovesNothing,
		"back and forward show the truth":                   backAndForwardShowTheTruth,
		"an unanswered question is asked again":             anUnansweredQuestionIsAskedAgain,
		"sleep counts":                                      sleepCounts,
		"a clock set back does not":                         aClockSetBackDoesNot,
		"the button keeps to the server":                    theButtonKeepsToTheServer,
		"an early press does nothing":                       anEarlyPressDoesNothing,
		"codes in many forms":                               codesInManyForms,
		"letters through an input method":                   lettersThroughAnInputMethod,
		"wrong letters":                                     wrongLetters,
		"a code from before a change":                       aCodeFromBeforeAChange,
		"a wrong code":                                      aWrongCode,
		"a press is not lost":                               aPressIsNotLost,
		"a refusal":                                         aRefusal,
		"a double click":                                    aDoubleClick,
		"typing during a send":                              typingDuringASend,
		"offline":                                           offline,
		"an outage":                                         anOutage,
		"without scripts":                                   withoutScripts,
		"the way by phone":                                  theWayByPhone,
		"numbers while they are typed":                      numbersWhileTheyAreTyped,
		"a number that is being typed stays":                aNumberBeingTypedStays,
		"the real thing":                                    theRealThing,
		"a widget goes the whole way":                       aWidgetGoesTheWholeWay,
		"a widget sends again once":                         aWidgetSendsAgainOnce,
		"a widget's refusal":                                aWidgetsRefusal,
		"a widget on a page that may not":                   aWidgetOnAPageThatMayNot,
		"a widget through a reload":                         aWidgetThroughAReload,
		"a widget's press is not lost":                      aWidgetsPressIsNotLost,
		"a widget's wrong codes":                            aWidgetsWrongCodes,
		"a widget's ends":                                   aWidgetsEnds,
		"a widget offline":                                  aWidgetOffline,
		"a widget and an outage":                            aWidgetAndAnOutage,
		"several widgets, and one removed":                  severalWidgets,
		"a widget that is required":                         aWidgetThatIsRequired,
		"a widget tells its page":                           aWidgetTellsItsPage,
		"a widget is reset while it asks":                   aWidgetIsResetWhileItAsks,
		"a widget is one request":                           aWidgetIsOneRequest,
		"a widget in one accent":                            oneAccentColoursAWidget,
		"a widget in a language that is not there":          aWidgetInNoLanguageOfOurs,
		"a widget by its documentation":                     aWidgetByItsDocumentation,
		"a widget by phone":                                 aWidgetByPhone,
		"a widget's numbers":                                aWidgetsNumbers,
		"a widget's other channel":                          aWidgetsOtherChannel,
		"a widget without text messages":                    aWidgetWithoutTextMessages,
		"the table of cards":                                theTableOfCards,
		"a widget holds":                                    everyStateOfAWidget,
		"every other page can be used":                      everyOtherPage,
		"every state holds, is readable and can be reached": everyState,
	} {
		t.Run(name, func(t *testing.T) {
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

const (
	patience = time.Minute
	glance   = 25 * time.Millisecond
)

// watching runs in each page before anything else: it keeps what the status line said, every text that the countdown
// showed and how long each timer was to sleep, and lets a test stop and move the two clocks.
const watching = `(() => {
  window.said = []; window.shown = []; window.naps = [];
  let wall = 0, steady = 0, halted, stopped;
  const date = Date.now.bind(Date), mono = performance.now.bind(performance);
  Date.now = () => (halted ?? date()) + wall;
  performance.now = () => (stopped ?? mono()) + steady;
  window.jump = (w, s) => { wall += w; steady += s; };
  window.freeze = () => { halted = date(); stopped = mono(); };
  const sleep = setTimeout;
  window.setTimeout = (run, ms, ...more) => { naps.push(ms); return sleep(run, ms, ...more); };
  const note = (list, text) => { if (text && list.at(-1) !== text) list.push(text); };
  addEventListener('DOMContentLoaded', () => {
    new MutationObserver(() => {
      note(said, document.querySelector('#say')?.textContent);
      const again = document.querySelector('#again');
      if (again) note(shown, again.innerText.replace(/\s+/g, ' ').trim());
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
})()`

func open(t *testing.T, browser context.Context, w *pagetest.World, look pagetest.Look) *tab {
	t.Helper()
	ctx, end := pagetest.Tab(browser)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute) // far more than a test takes: 1,000 schedules need some five on a quiet machine
	t.Cleanup(cancel)
	if look.Width == 0 {
		look.Width, look.Height = 800, 700
	}
	if look.Lang == "" {
		look.Lang = "en"
	}
	b := &tab{T: t, ctx: ctx, world: w, root: "document"}
	b.listen()
	b.do(look.Apply(), w.Adopt())
	b.first(watching)
	return b
}

// first runs a script in each page before anything else, after those that do so already.
func (b *tab) first(script string) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// listen fails the test on every error that the browser reports, violations of the policy among them.
func (b *tab) listen() {
	messages := chromedp.Console(b.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
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

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

func (b *tab) visit(query string) {
	b.Helper()
	b.do(chromedp.Navigate(b.world.URL + query))
}

func eval[T any](b *tab, expression string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
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
	if !await(holds) {
		b.Fatalf("still not: %s; fields %s; the page says: %s", what,
			eval[string](b, "JSON.stringify([document.activeElement.id, ...[...document.querySelectorAll('input')].map((e) => e.value)])"),
			eval[string](b, "document.body.innerText + ("+b.root+".querySelector('#card')?.parentElement.innerText)"))
	}
}

// await says whether something came to hold.
func await(holds func() bool) bool { return awaitFor(patience, holds) }

func awaitFor(most time.Duration, holds func() bool) bool {
	tick, deadline := time.NewTicker(glance), time.After(most)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

// card waits for a card of the kind that says all of the words.
func (b *tab) card(kind string, words ...string) {
	b.Helper()
	b.until(fmt.Sprintf("%s.querySelector('#card')?.dataset.kind === %q", b.root, kind))
	for _, w := range words {
		b.until(fmt.Sprintf("%s.querySelector('#card').innerText.replace(/\\s+/g, ' ').includes(%q)", b.root, w))
	}
}

func (b *tab) keys(keys string) { b.Helper(); b.do(chromedp.KeyEvent(keys)) }

// focus and click find their element at the last moment, as the card may be swapped at any time.
func (b *tab) focus(id string) {
	b.Helper()
	b.until(fmt.Sprintf("%s.getElementById(%q)?.checkVisibility()", b.root, id))
	eval[bool](b, fmt.Sprintf("%s.getElementById(%q).focus() ?? true", b.root, id))
}

func (b *tab) click(selector string) { b.Helper(); b.press(selector, 1) }

func (b *tab) doubleClick(selector string) { b.Helper(); b.press(selector, 2) }

func (b *tab) press(selector string, times int) {
	b.Helper()
	at := b.middle(selector)
	for n := range times {
		b.do(chromedp.MouseClickXY(at[0], at[1], func(p *input.DispatchMouseEventParams) { p.ClickCount = int64(n + 1) }))
	}
}

// middle scrolls to an element and says where it then is.
func (b *tab) middle(selector string) []float64 {
	b.Helper()
	return eval[[]float64](b, fmt.Sprintf(`(() => { const e = %s.querySelector(%q); e.scrollIntoView({ block: 'center' });
		const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()`, b.root, selector))
}

// paste puts text in as the clipboard does: at once, as one input.
func (b *tab) paste(text string) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: text})
		return err
	}))
}

// emptied takes out of the field what was no code, which stays there.
func (b *tab) emptied() {
	b.Helper()
	b.focus("code")
	eval[bool](b, b.root+`.querySelector('#code').value = '', true`)
}

func (b *tab) focused(id string) {
	b.Helper()
	b.until(fmt.Sprintf("%s.activeElement?.id === %q", b.root, id))
}

// again is what the button says, as it is seen.
func (b *tab) again() string {
	b.Helper()
	return eval[string](b, b.root+`.querySelector('#again').innerText.replace(/\s+/g, ' ').trim()`)
}

// left reads m:ss from the button, in seconds.
func (b *tab) left() int {
	b.Helper()
	var m, s int
	text := b.again()
	if i := strings.LastIndexByte(text, ' '); i < 0 || !scans(text[i+1:], &m, &s) {
		b.Fatalf("the button says %q", text)
	}
	return 60*m + s
}

// counts: the button counts down a minute that began after a moment, however long the machine has taken since.
func (b *tab) counts(from time.Time) {
	b.Helper()
	if left := b.left(); left > 60 || left < 59-int(time.Since(from)/time.Second) {
		b.Errorf("%d s are left of 60, %v after the request", left, time.Since(from))
	}
}

func scans(text string, m, s *int) bool {
	n, err := fmt.Sscanf(text, "%d:%d", m, s)
	return err == nil && n == 2
}

// history goes through the browser's own. A page that was kept alive whole fires no load event, so nothing is waited for.
func (b *tab) history(way string) {
	b.Helper()
	eval[bool](b, "setTimeout(() => history."+way+"()), true")
}

// leave does what makes the browser load another page, and waits until that has come.
func (b *tab) leave(act func()) {
	b.Helper()
	eval[bool](b, `window.left = true`)
	act()
	b.until(`window.left === undefined && document.readyState === 'complete'`)
}

// nothingKept fails when the address or the storage of the browser holds anything of a person.
func (b *tab) nothingKept() {
	b.Helper()
	kept := eval[string](b, `JSON.stringify([location.href, history.state, {...localStorage}, {...sessionStorage}, document.cookie])`)
	for _, secret := range []string{"ana", "example", "23456789", "3456789", pagetest.Code, "verification"} {
		if strings.Contains(kept, secret) {
			b.Errorf("the browser keeps %q where others can read it: %s", secret, kept)
		}
	}
}

func (b *tab) zone(name string) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name})
		return err
	}))
}
