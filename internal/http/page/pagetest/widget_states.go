package pagetest

import (
	"fmt"
	"time"

	"sendcode/internal/kit/browsertest"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// WidgetState is a state of the widget, with the steps by which a person reaches it.
type WidgetState struct {
	Name   string
	Kind   string // of the card that is shown in the end
	Rules  []quota.Rule
	Before []Step // steps before the person comes
	To     string // the address that is typed; empty: none
	Phone  bool   // To is a phone number, and the widget offers text messages first
	After  []Step // steps after the address was typed
	Code   string // text that is typed for the code; empty: none
	Barred bool   // the site may not use the service
}

// WidgetStates lists the states of the widget that browser tests and screenshots show.
func WidgetStates() []WidgetState {
	arrives := immediately(store.Sent)
	return []WidgetState{
		{Name: "widget-ask", Kind: "ask"},
		{Name: "widget-bad-address", Kind: "ask", To: "ana.example.com"},
		{Name: "widget-sending", Kind: "code", To: Address},
		{Name: "widget-code", Kind: "code", Before: steps{arrives}, To: Address},
		{
			Name: "widget-code-ready", Kind: "code", Before: steps{arrives}, To: Address,
			After: steps{later(75 * time.Second)},
		},
		{Name: "widget-code-wrong", Kind: "code", Before: steps{arrives}, To: Address, Code: "111111"},
		{Name: "widget-code-unknown", Kind: "code", Before: steps{immediately(store.Unknown)}, To: Address},
		{
			Name: "widget-enough-minute", Kind: "enough", Before: steps{arrives, send(Address), later(12 * time.Second)},
			To: Address,
		},
		{
			Name: "widget-enough-hour", Kind: "enough", Before: steps{spent(5, 7*time.Minute), later(3 * time.Minute)},
			To: Address,
		},
		{
			Name: "widget-enough-network", Kind: "enough", Rules: append(verificationtest.DefaultRules(),
				quota.Rule{Name: "office", Scope: quota.IP, Limit: 2, Window: 20 * time.Minute}),
			Before: steps{send("ben@example.com"), send("cem@example.com")}, To: Address,
		},
		{Name: "widget-locked-out", Kind: "ask", Before: steps{lockOut}, To: Address},
		{
			Name: "widget-locked-out-code", Kind: "code", Before: steps{arrives}, To: Address, After: steps{lockOut},
			Code: "111111",
		},
		{Name: "widget-too-many-requests", Kind: "away", Before: steps{(*World).Exhaust}, To: Address},
		{
			Name: "widget-code-long-approved", Kind: "approved", To: Address, Code: LongCode,
			Before: steps{func(w *World) { w.Codes.formatAs(eightDigits) }, arrives}, // as after too many failed checks
		},
		{Name: "widget-failed", Kind: "failed", To: Address, After: steps{settle(store.Failed)}},
		{
			Name: "widget-expired", Kind: "ended", Before: steps{arrives}, To: Address,
			After: steps{later(11 * time.Minute)},
		},
		{Name: "widget-away", Kind: "away", Before: steps{down}, To: Address},
		{Name: "widget-misplaced", Kind: "misplaced", To: Address, Barred: true},
		{Name: "widget-phone-ask", Kind: "ask", Phone: true},
		{Name: "widget-phone-bad", Kind: "ask", Phone: true, To: "0151 23 ana"},
		{Name: "widget-phone-denied", Kind: "ask", Phone: true, To: "+34 612 34 56 78"},
		{Name: "widget-phone-code", Kind: "code", Phone: true, Before: steps{arrives}, To: Number},
		{
			Name: "widget-phone-ready", Kind: "code", Phone: true, Before: steps{arrives}, To: Number,
			After: steps{later(75 * time.Second)},
		},
		{
			Name: "widget-phone-undelivered", Kind: "failed", Phone: true, Before: steps{immediately(store.Undelivered)},
			To: Number,
		},
		{Name: "widget-phone-failed", Kind: "failed", Phone: true, To: Number, After: steps{settle(store.Failed)}},
		{
			Name: "widget-phone-limit", Kind: "enough", Phone: true,
			Before: steps{texting("DE"), text(Number), func(w *World) { w.Codes.FailByCarrier(23 * time.Hour) }}, To: Number,
		},
		{Name: "widget-approved", Kind: "approved", Before: steps{arrives}, To: Address, Code: Code},
	}
}

// World starts a world, performs the steps that come before the person, and starts a site with the
// widget in a language. The caller must Close both.
func (s WidgetState) World(lang string) (*World, *Site) {
	w := NewWorld(s.Rules...)
	for _, step := range s.Before {
		step(w)
	}
	attributes := ""
	if s.Phone {
		w.Codes.SetCountries("AT", "CN", "DE", "US")
		attributes = `channels="sms email" country="DE"`
	}
	site := w.Embed(fmt.Sprintf(`<main><send-code public-key="%s" locale="%s" %s></send-code></main>`, PublicKey, lang,
		attributes), "")
	if s.Barred {
		w.Allow()
	}
	return w, site
}

// Reach performs the person's steps to the state, in a tab that shows the site.
func (s WidgetState) Reach(tab *browsertest.Tab, w *World) error {
	if s.To == "" {
		return typed(tab, "", "", "ask")
	}
	kind := s.Kind
	if s.After != nil || s.Code != "" {
		kind = "code"
	}
	field := "to"
	if s.Phone {
		field = "phone"
	}
	if err := typed(tab, field, s.To, kind); err != nil {
		return err
	}
	for _, step := range s.After {
		step(w)
	}
	if s.After != nil && s.Code == "" {
		return typed(tab, "", "", s.Kind)
	}
	if s.Code != "" {
		return typed(tab, "code", s.Code, s.Kind)
	}
	return nil
}

// typed fills in a field and submits its form, or makes the widget read the state again if field is
// "". Then it waits for a card of this kind.
func typed(tab *browsertest.Tab, field, text, kind string) error {
	var there bool
	return tab.Eval(fmt.Sprintf(`(async () => {
		await customElements.whenDefined('send-code');
		const root = document.querySelector('send-code').shadowRoot;
		const until = (holds) => new Promise((go) => { const t = setInterval(() => { if (holds()) { clearInterval(t); go(); } }, 20); });
		await until(() => root.querySelector('#heading'));
		if (document.querySelector('[channels]') && root.querySelector('#phone')) await until(() => root.querySelector('#country')); // which it asks for
		const field = root.getElementById(%q), before = root.querySelector('#card');
		if (field?.id === 'phone') root.querySelector('#country').value = 'DE';
		if (field) { field.value = %q; field.form.requestSubmit(); await until(() => root.querySelector('#card') !== before); }
		else document.dispatchEvent(new Event('visibilitychange'));
		await until(() => root.querySelector('#card').dataset.kind === %q && !root.querySelector('.busy'));
		if (!field) await until(() => root.querySelector('#again:not([aria-disabled])') || !root.querySelector('#again'));
		return true })()`, field, text, kind), &there)
}
