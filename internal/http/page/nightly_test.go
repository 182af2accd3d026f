//go:build nightly

// Only `make nightly` runs these tests: every card in every language takes minutes.

package page_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/message"
	"sendcode/internal/http/page"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/http/reference"
	"sendcode/internal/kit/browsertest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

func TestAllInABrowser(t *testing.T) {
	browser, engine := chromium(t)
	inTabs(t, browser, aReloadMovesNothing, aWidgetInReact, aWidgetInVue, aWidgetInAFormLibrary, aWidgetWithVModel,
		aWidgetInAnAction, aWidgetInADialog, aWidgetUnderForeignCSS, aWidgetInTheReadersSize,
		aWidgetByItsDocumentation, aWidgetSpeaksALanguage, aWidgetForLibrariesOfInputs, severalWidgets, theWorkIsSHA256,
		eachWayToMoveAWidget)
	for name, test := range map[string]func(*testing.T, context.Context, *pagetest.Axe){
		"a widget in one accent": oneAccentColoursAWidget, "every other page": everyOtherPage,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, browser, engine)
		})
	}
	for _, l := range unreliableFeatures {
		for _, how := range l.how {
			t.Run(fmt.Sprintf("a browser without %s (%c)", l.feature, how), func(t *testing.T) {
				t.Parallel()
				aWayWithout(t, browser, []string{l.feature}, how)
			})
		}
	}
	inNewTabs(t, browser, eachByItself...)
	t.Run("impatient people", func(t *testing.T) {
		t.Parallel()
		impatientPeople(t, browser, "widget")
	})
	for _, lang := range []string{"en", "zh", "ar", "es"} {
		t.Run("every card in "+lang, func(t *testing.T) {
			t.Parallel()
			everyCard(t, anotherTab(t, browser), engine, narrowAndWide, pagetest.WidgetStates(), lang)
		})
	}
}

// The cards are also tested in the other browsers: in English at 320 px in dark colours, and in
// Arabic at 1280 px in light colours.
func TestEveryCardInOtherBrowsers(t *testing.T) {
	engine, err := pagetest.LoadAxe(t.Context(), servertest.Chromium(t))
	servertest.OK(t, err)
	for name, start := range map[string]func(testing.TB) browsertest.Browser{"firefox": browsertest.Firefox, "webkit": browsertest.WebKit} {
		t.Run(name, func(t *testing.T) {
			browser := start(t)
			for i, lang := range []string{"en", "ar"} {
				look := narrowAndWide[i]
				t.Run(fmt.Sprintf("%s %d", lang, look.Width), func(t *testing.T) {
					everyCard(t, browser.Open(t, look), engine, []browsertest.Look{look}, pagetest.WidgetStates(), lang)
				})
			}
		})
	}
}

// The tests of guests in other sites pass in the other browsers, too.
func TestGuestsInOtherBrowsers(t *testing.T) {
	for name, start := range map[string]func(testing.TB) browsertest.Browser{"firefox": browsertest.Firefox, "webkit": browsertest.WebKit} {
		t.Run(name, func(t *testing.T) {
			browser := start(t)
			for _, test := range slices.Concat(guests, eachByItself) {
				t.Run(nameOf(test), func(t *testing.T) { test(t, browser.Open(t, browsertest.Look{})) })
			}
		})
	}
}

func eachWayToMoveAWidget(t *testing.T, browser context.Context) {
	for name := range moves {
		movedAtEachStep(t, browser, []string{name})
	}
}

// eachByItself are tests of guests in which each case has its own page. In make test, the cases
// share a page.
var eachByItself = []func(*testing.T, *browsertest.Tab){
	eachOfOthersAnswersEachRequest, eachHintIsNoFact, eachEndInAPageOfItsOwn, eachMessageWithoutACode,
}

func eachHintIsNoFact(t *testing.T, tab *browsertest.Tab) {
	for name := range hints {
		t.Run(name, func(t *testing.T) { besideHints(t, tab, name) })
	}
}

func eachEndInAPageOfItsOwn(t *testing.T, tab *browsertest.Tab) {
	for name := range endedProofUses {
		t.Run(name, func(t *testing.T) { confirmed(t, tab, accepting(t), "").usesEndedProof(name) })
	}
}

func eachMessageWithoutACode(t *testing.T, tab *browsertest.Tab) {
	for name := range noCodes {
		t.Run(name, func(t *testing.T) { messagesWithoutCodes(t, tab, name) })
	}
}

// eachOfOthersAnswersEachRequest tests each of the foreignAnswers at every stage of a widget's way.
func eachOfOthersAnswersEachRequest(t *testing.T, tab *browsertest.Tab) {
	for name := range foreignAnswers {
		t.Run(name, func(t *testing.T) { othersAnswer(t, tab, [stages]string{name, name, name, name, name}) })
	}
}

// aReloadMovesNothing tests that nothing on the page moves when its script loads after the page:
// there is space for the parts that only the script can show. The clock shows noon, since near
// midnight a time is shown with its day, and may need another line. Small movements are allowed,
// because a digit that is wider than the previous one moves the text beside it.
func aReloadMovesNothing(t *testing.T, browser context.Context) {
	w := accepting(t)
	sends(t, w, pagetest.Address)
	w.Advance(20 * time.Second)
	noon := fmt.Sprintf("Etc/GMT%+d", cmp.Or(time.Now().UTC().Hour()-12, 1)) // Etc zones have inverted signs; UTC counts as unknown
	for lang, width := range map[string]int64{"es": 320, "ar": 1280} {
		b := open(t, browser, w, browsertest.Look{Width: width, Height: 900, Lang: lang, Zone: noon})
		b.first(shifting(0.0003))
		b.visit("")
		b.until(`document.querySelector('send-code').shadowRoot.querySelector('#code-expiry').innerText.includes(':')`)
		b.do(slow(300*time.Millisecond, 400_000/8), chromedp.Reload())
		b.until(`document.querySelector('send-code').shadowRoot.querySelector('#code-expiry')?.innerText.includes(':')`)
		b.run(`requestAnimationFrame(() => requestAnimationFrame(() => { window.drawn = true }))`)
		b.until(`window.drawn`)
		if moved := eval[[]string](b, `shifts`); len(moved) > 0 {
			t.Errorf("%s at %d px: the page moves: %v", lang, width, moved)
		}
	}
}

// mailedCodes finds a code for every token except "none".
type mailedCodes struct{}

func (mailedCodes) MailedCode(_ context.Context, token string) (v store.Verification, err error) {
	v.To, v.App = "ana.m•••@example.com", "shop"
	switch token {
	case "done":
		v.NotMeAt = time.Now()
	case "used":
		v.NotMeAt, v.ApprovedAt = time.Now(), time.Now()
	case "none":
		err = fault.NotFound
	}
	return v, err
}

func (c mailedCodes) ReportNotMe(ctx context.Context, token string) (store.Verification, error) {
	return c.MailedCode(ctx, token)
}

// everyOtherPage tests the pages other than the one on which people request codes: the dev mailbox,
// a page that explains a problem, the pages behind a mail's link, and the specification with a
// document.
func everyOtherPage(t *testing.T, browser context.Context, engine *pagetest.Axe) {
	w := world(t)
	b := open(t, browser, w, browsertest.Look{})
	b.tolerate = "e" // any message: the browser reports that the mail's frame may run no scripts
	pages := serveMailbox(w, "", first())
	reference.Register(pages)
	page.RegisterNotMe(pages, mailedCodes{}, func(string) (string, message.Brand) {
		return "Shop", message.NewBrand("", "#0b7a5c", "https://shop.example/")
	})
	site, empty := httptest.NewServer(pages), httptest.NewServer(serveMailbox(w, ""))
	defer site.Close()
	defer empty.Close()
	for _, step := range []struct{ name, address string }{
		{"no mail", empty.URL + "/mailbox?k=the-key"},
		{"a mail", site.URL + "/mailbox?k=the-key"},
		{"a problem", site.URL + "/problems/quota-exceeded"},
		{"a mail to report", site.URL + "/not-me/open"},
		{"a reported mail", site.URL + "/not-me/done"},
		{"a reported mail whose code was entered", site.URL + "/not-me/used"},
		{"a mail of a day ago", site.URL + "/not-me/none"},
		{"what happened", site.URL + "/problems/none"},
		{"the specification", site.URL + "/docs"},
		{"a document", site.URL + "/docs/compliance"},
	} {
		for _, look := range narrowAndWide {
			b.do(look.Apply(), chromedp.Navigate(step.address))
			b.accessible(engine, step.name, look, "html")
			if eval[bool](b, `document.documentElement.scrollWidth > document.documentElement.clientWidth || document.querySelector('main.card')?.offsetLeft === 0`) {
				t.Errorf("%s scrolls sideways or touches the edge at %d px", step.name, look.Width)
			}
			low := eval[int](b, `Math.min(99, ...[...document.querySelectorAll('main.card a')].map((a) => a.offsetHeight))`)
			if low < 40 {
				t.Errorf("a link of %s is %d px high at %d px", step.name, low, look.Width)
			}
		}
	}
}

// oneAccentColoursAWidget tests that no element keeps the default colour, and that text in the
// accent and on the accent is readable, with a light and with a dark accent.
func oneAccentColoursAWidget(t *testing.T, browser context.Context, engine *pagetest.Axe) {
	for _, accent := range []string{"#ffd500", "#111"} {
		look := browsertest.Look{Width: 1280, Height: 900, Lang: "en"}
		b, s := embeddedBeside(t, browser, accepting(t), look, tag(""), `send-code { --accent: `+accent+` }`)
		b.do(chromedp.Navigate(s.URL))
		b.asked(pagetest.Address)
		b.card("code")
		for _, look.Dark = range []bool{false, true} {
			b.do(look.Apply())
			b.accessible(engine, "code in "+accent, look, "send-code")
			if got := eval[[]string](b, fmt.Sprintf(bluish, b.root)); len(got) > 0 {
				t.Errorf("in %s, dark %v: blue stays in %v", accent, look.Dark, got)
			}
		}
	}
}

// bluish returns the elements with a colour that is bluer than the greys.
const bluish = `[new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true })].flatMap((c) =>
[...%s.querySelectorAll('*')].filter((e) => e.checkVisibility()).flatMap((e) => {
  const s = getComputedStyle(e);
  return ['color', 'backgroundColor', 'borderTopColor', 'fill'].filter((p) => {
    c.clearRect(0, 0, 1, 1); c.fillStyle = s[p]; c.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = c.getImageData(0, 0, 1, 1).data;
    return a > 0 && g > r && b - r >= 16 && b - g >= 8; // more than the greys, also where it is pale
  }).map((p) => e.tagName + '.' + e.className + ' ' + p);
}))`
