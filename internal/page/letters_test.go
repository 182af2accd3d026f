package page_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/page/pagetest"
	"sendcode/internal/store"
)

// sentLetters is a world with a code of letters on its way.
func sentLetters(t *testing.T) *pagetest.World {
	t.Helper()
	w := running(t)
	w.SendLetters()
	w.Codes.Immediately = store.Sent
	if _, err := w.Post("", "send", "to", pagetest.Address); err != nil {
		t.Fatal(err)
	}
	return w
}

// Who writes Chinese types letters through an input method.
func lettersThroughAnInputMethod(t *testing.T, browser context.Context) {
	w := sentLetters(t)
	b := open(t, browser, w, pagetest.Look{})
	b.visit("")
	b.focus("code")
	eval[bool](b, `(() => { const f = document.querySelector('#code');
		f.dispatchEvent(new CompositionEvent('compositionstart', { bubbles: true }));
		f.value = 'bkvxrtnz';
		f.dispatchEvent(new InputEvent('input', { bubbles: true, isComposing: true }));
		return true })()`)
	if b.card("code"); w.Codes.Checks() != 0 {
		t.Error("checked before the input method was done")
	}
	eval[bool](b, `document.querySelector('#code').dispatchEvent(new CompositionEvent('compositionend', { bubbles: true }))`)
	b.card("approved")
}

func wrongLetters(t *testing.T, browser context.Context) {
	w := sentLetters(t)
	b := open(t, browser, w, pagetest.Look{})
	b.visit("")
	b.card("code")
	b.focus("code")
	b.keys("bkvxrtn")
	if got := eval[string](b, "getComputedStyle(document.querySelector('#code')).textTransform"); got != "uppercase" {
		t.Errorf("typed letters look %q", got)
	}
	b.keys(kb.Enter)
	b.card("code", "The code has 8 characters.")
	b.keys("a" + kb.Enter) // what was typed is still there
	b.card("code", "Codes have no digits and no vowels")
	b.focused("code")
	if w.Codes.Checks() != 0 {
		t.Errorf("slips cost %d tries", w.Codes.Checks())
	}
	b.emptied()
	b.keys("bbbbbbbb" + kb.Enter)
	b.card("code", "That code is wrong. 4 tries left.")
	b.keys("bkvxrtnz" + kb.Enter)
	b.card("approved")
}

// The configuration changes between a code and its check: the page goes by the code that was sent, then by the new ones.
func aCodeFromBeforeAChange(t *testing.T, browser context.Context) {
	w := sent(t)
	b := open(t, browser, w, pagetest.Look{})
	b.visit("")
	w.SendLetters()
	b.visit("")
	b.card("code", "all 6 digits")
	if got := eval[string](b, "document.querySelector('#code').inputMode"); got != "numeric" {
		t.Errorf("inputmode %s for a code of digits", got)
	}
	b.focus("code")
	b.keys("4829" + kb.Enter)
	b.card("code", "The code has 6 digits.")
	b.focused("code")
	b.emptied()
	b.keys(pagetest.Code + kb.Enter)
	b.card("approved")
	b.visit("?view=new")
	b.card("ask", "a code of 8 characters")
	b.focus("to")
	b.keys("ben@example.com" + kb.Enter)
	b.card("code", "all 8 characters")
	b.focus("code")
	b.keys(strings.ToLower(pagetest.Letters))
	b.card("approved")
}

// Without a script the slips are the same, and cost nothing.
func TestSlipsOfLetters(t *testing.T) {
	w := sentLetters(t)
	for typed, words := range map[string]string{
		"": "Enter the code from the mail.", "bkvx": "The code has 8 characters.", "bkvxrtnzb": "The code has 8 characters.",
		"bkvxrtna": "Codes have no digits and no vowels", "12345678": "Codes have no digits and no vowels", strings.Repeat("b", 70): "The code has 8 characters.",
	} {
		shows(t, post(t, w, "", "check", "code", typed), "code", words)
	}
	w.Lang = "zh"
	shows(t, post(t, w, "", "check", "code", "bkvx"), "code", "验证码是 8 个字符")
	if w.Codes.Checks() != 0 {
		t.Errorf("%d tries", w.Codes.Checks())
	}
	w.Lang = "en"
	w.Advance(time.Second)
	shows(t, post(t, w, "", "check", "code", "ｂｋｖｘ rtnz"), "approved")
}
