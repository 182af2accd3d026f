package pagetest

import (
	"strings"
	"time"

	"sendcode/internal/base/message"
	"sendcode/internal/http/page"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// State is a state of the page, with the steps that lead to it.
type State struct {
	Name     string
	Query    string // of the page's address
	Rules    []quota.Rule
	Offline  bool // the browser has lost its connection
	NoScript bool // the browser runs no scripts
	Steps    []Step
}

// Step brings a world further.
type Step func(*World) error

type steps = []Step

// Address is the visitor's address; Slip is an address with a likely slip in its domain.
const (
	Address = "ana@example.com"
	Slip    = "ana@exmaple.com"
)

// New starts a world and runs the steps that lead to the state.
func (s State) New(lang string) (*World, error) {
	w := NewWorld(s.Rules...)
	w.Lang = lang
	for _, step := range s.Steps {
		if err := step(w); err != nil {
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

func post(query, act string, fields ...string) Step {
	return func(w *World) error {
		_, err := w.Post(query, act, fields...)
		return err
	}
}

func send(address string) Step { return post("?view=new", "send", "to", address) }

func again() Step            { return post("", "again") }
func check(code string) Step { return post("", "check", "code", code) }

func settle(s store.Status) Step {
	return func(w *World) error { w.Codes.Settle(s); return nil }
}

func later(d time.Duration) Step {
	return func(w *World) error { w.Advance(d); return nil }
}

func letters(w *World) error { w.SendLetters(); return nil }

// alsoBranded lets the page serve an app with a brand as well, whose logo is on another origin.
func alsoBranded(w *World) error {
	logo := strings.Replace(w.URL, "127.0.0.1", "localhost", 1) + "static/icon.svg"
	w.Also(page.AppPage{
		App: "branded", Title: "Shop", Sender: "no-reply@shop.example",
		Brand: message.NewBrand(logo, "#e3632d", "https://shop.example/"),
	})
	return nil
}

func lockOut(w *World) error { w.Codes.LockOut(); return nil }

func exhaust(w *World) error { w.Exhaust(); return nil }

func longCodes(w *World) error { w.SendLongCodes(); return nil }

func down(w *World) error { w.Codes.SetDown(true); return nil }

func immediately(s store.Status) Step {
	return func(w *World) error { w.Codes.Immediately = s; return nil }
}

// sendDespiteDoubt sends to an address although the page doubts its domain.
func sendDespiteDoubt(address string) Step {
	return repeat(1, send(address), post("?view=change", "send", "to", address))
}

// repeat runs the steps n times.
func repeat(n int, steps ...Step) Step {
	return func(w *World) error {
		for range n {
			for _, step := range steps {
				if err := step(w); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// spent sends n codes at intervals, all of them delivered.
func spent(n int, apart time.Duration) Step {
	return repeat(1, immediately(store.Sent), send(Address), repeat(n-1, later(apart), again()))
}

// networkSpentRules returns the default rules and a network's rule, which others have used up.
func networkSpentRules() []quota.Rule {
	return append(verificationtest.DefaultRules(),
		quota.Rule{Name: "office", Scope: quota.IP, Limit: 2, Window: 20 * time.Minute})
}

// unusualRules returns rules with unusual names and limits, one of them too large to draw as dots.
func unusualRules() []quota.Rule {
	return []quota.Rule{
		{Name: "burst", Scope: quota.Recipient, Limit: 3, Window: 30 * time.Second},
		{Name: "six hours", Scope: quota.Recipient, Limit: 12, Window: 6 * time.Hour},
		{Name: "week", Scope: quota.Recipient, Limit: 40, Window: 7 * 24 * time.Hour},
	}
}

// States lists every state of the page.
func States() []State { return append(mailStates(), phoneStates()...) }

func mailStates() []State {
	sent := repeat(1, send(Address), settle(store.Sent))
	return []State{
		{Name: "ask"},
		{Name: "ask-branded", Query: "?app=branded", Steps: steps{alsoBranded}},
		{
			Name: "code-branded", Query: "?app=branded",
			Steps: steps{alsoBranded, post("?app=branded", "send", "to", Address), settle(store.Sent)},
		},
		{Name: "ask-bad-address", Query: "?view=change", Steps: steps{send("ana.example.com")}},
		{Name: "ask-did-you-mean", Query: "?view=change", Steps: steps{send(Slip)}},
		{Name: "ask-press-again", Steps: steps{sendWithoutCookie}},
		{Name: "no-cookies", Query: "?view=kept"},
		{Name: "no-cookies-sent", Query: "?view=sent"},
		{Name: "ask-known", Query: "?view=new", Steps: steps{sent, check(Code)}},
		{Name: "ask-change", Query: "?view=change", Steps: steps{sent}},
		{Name: "sending", Steps: steps{send(Address), settle(store.Sending)}},
		{Name: "code-counting", Steps: steps{sent, later(4 * time.Second)}},
		{Name: "code-nothing-yet", Steps: steps{sent, later(18 * time.Second)}},
		{Name: "code-ready", Steps: steps{sent, later(75 * time.Second)}},
		{Name: "code-sent-again", Steps: steps{
			sent, later(61 * time.Second), again(), settle(store.Sent),
			later(2 * time.Second),
		}},
		{Name: "code-wrong", Steps: steps{sent, later(9 * time.Second), check("111111"), check("222222")}},
		{Name: "ask-letters", Steps: steps{letters}},
		{Name: "code-letters", Steps: steps{letters, sent, later(9 * time.Second)}},
		{Name: "ask-purpose", Query: "?purpose=confirm"},
		{
			Name: "code-purpose", Query: "?purpose=confirm",
			Steps: steps{post("?purpose=confirm", "send", "to", Address), settle(store.Sent)},
		},
		{Name: "link-refused", Query: "?purpose=gift"},
		{Name: "code-unknown", Steps: steps{send(Address), settle(store.Unknown), later(6 * time.Second)}},
		{Name: "code-resend-failed", Steps: steps{sent, later(61 * time.Second), again(), settle(store.Failed)}},
		{Name: "code-hour-spent", Steps: steps{spent(5, 100*time.Second), later(3 * time.Second)}},
		{Name: "code-other-rules", Rules: unusualRules(), Steps: steps{spent(3, time.Second)}},
		{Name: "enough-minute", Steps: steps{sent, later(12 * time.Second), forget, send(Address)}},
		{Name: "enough-hour", Steps: steps{spent(5, 7*time.Minute), later(3 * time.Minute), again()}},
		{Name: "enough-day", Steps: steps{spent(10, 55*time.Minute), later(5 * time.Minute), forget, send(Address)}},
		{
			Name: "enough-network", Rules: networkSpentRules(),
			Steps: steps{send("ben@example.com"), send("cem@example.com"), send(Address)},
		},
		{Name: "locked-out", Steps: steps{lockOut, send(Address)}},
		{Name: "locked-out-code", Steps: steps{sent, lockOut, later(9 * time.Second), check("111111")}},
		{Name: "too-many-requests", Steps: steps{sent, exhaust}},
		{Name: "code-long", Steps: steps{longCodes, sent, later(9 * time.Second)}},
		{Name: "failed", Steps: steps{send(Address), settle(store.Failed)}},
		{Name: "failed-did-you-mean", Steps: steps{sendDespiteDoubt(Slip), settle(store.Failed)}},
		{Name: "too-many-tries", Steps: steps{sent, later(20 * time.Second), repeat(5, check("111111"))}},
		{Name: "expired", Steps: steps{sent, later(11 * time.Minute)}},
		{Name: "away", Steps: steps{down, send(Address)}},
		{Name: "away-reading", Steps: steps{sent, down}},
		{Name: "offline", Steps: steps{sent, later(10 * time.Second)}, Offline: true},
		{Name: "approved", Steps: steps{sent, later(10 * time.Second), check("482 913")}},
		{Name: "no-script", Steps: steps{sent, later(18 * time.Second)}, NoScript: true},
	}
}

// sendWithoutCookie posts the form of a page whose cookie has expired.
func sendWithoutCookie(w *World) error {
	page, err := w.Get("")
	if err != nil {
		return err
	}
	w.Forget()
	_, err = w.Submit(page, "send", "to", Address)
	return err
}

// forget deletes the visitor's cookies: the next request is another browser's.
func forget(w *World) error { w.Forget(); return nil }
