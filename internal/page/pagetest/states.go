package pagetest

import (
	"strings"
	"time"

	"sendcode/internal/brand"
	"sendcode/internal/page"
	"sendcode/internal/store"
	"sendcode/quota"
)

// State is one that the page can be in, and how to get there.
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

// Address is the visitor's, Slip one with a likely slip in its domain.
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
	w.Also(page.AppPage{App: "branded", Title: "Shop", Sender: "no-reply@shop.example", Brand: brand.New(logo, "#e3632d", "https://shop.example/")})
	return nil
}

func lockOut(w *World) error { w.Codes.LockOut(); return nil }

func exhaust(w *World) error { w.Exhaust(); return nil }

func longCodes(w *World) error { w.SendLongCodes(); return nil }

func down(w *World) error { w.Codes.SetDown(true); return nil }

func immediately(s store.Status) Step {
	return func(w *World) error { w.Codes.Immediately = s; return nil }
}

// sendDespiteDoubt returns the steps that send to an address although the page doubts its domain.
func sendDespiteDoubt(address string) []Step {
	return []Step{send(address), post("?view=change", "send", "to", address)}
}

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

// spent returns the steps that send n codes at intervals, all of them delivered.
func spent(n int, apart time.Duration) []Step {
	return []Step{immediately(store.Sent), send(Address), repeat(n-1, later(apart), again())}
}

func in(steps ...any) []Step {
	var all []Step
	for _, s := range steps {
		switch s := s.(type) {
		case Step:
			all = append(all, s)
		case func(*World) error:
			all = append(all, s)
		case []Step:
			all = append(all, s...)
		default:
			panic("not a step")
		}
	}
	return all
}

// networkSpentRules returns rules with a network's rule that others have used up.
func networkSpentRules() []quota.Rule {
	return append(DefaultRules(), quota.Rule{Name: "office", Scope: quota.IP, Limit: 2, Window: 20 * time.Minute})
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
	sent := in(send(Address), settle(store.Sent))
	return []State{
		{Name: "ask"},
		{Name: "ask-branded", Query: "?app=branded", Steps: in(alsoBranded)},
		{Name: "code-branded", Query: "?app=branded", Steps: in(alsoBranded, post("?app=branded", "send", "to", Address), settle(store.Sent))},
		{Name: "ask-bad-address", Query: "?view=change", Steps: in(send("ana.example.com"))},
		{Name: "ask-did-you-mean", Query: "?view=change", Steps: in(send(Slip))},
		{Name: "ask-change", Query: "?view=change", Steps: sent},
		{Name: "sending", Steps: in(send(Address), settle(store.Sending))},
		{Name: "sending-slow", Steps: in(send(Address), settle(store.Sending), later(20*time.Second))},
		{Name: "code-counting", Steps: in(sent, later(4*time.Second))},
		{Name: "code-nothing-yet", Steps: in(sent, later(18*time.Second))},
		{Name: "code-ready", Steps: in(sent, later(75*time.Second))},
		{Name: "code-sent-again", Steps: in(sent, later(61*time.Second), again(), settle(store.Sent), later(2*time.Second))},
		{Name: "code-wrong", Steps: in(sent, later(9*time.Second), check("111111"), check("222222"))},
		{Name: "code-slip", Steps: in(sent, later(9*time.Second), check("4829"))},
		{Name: "ask-letters", Steps: in(letters)},
		{Name: "code-letters", Steps: in(letters, sent, later(9*time.Second))},
		{Name: "code-letters-slip", Steps: in(letters, sent, later(9*time.Second), check("bkvx"))},
		{Name: "code-unknown", Steps: in(send(Address), settle(store.Unknown), later(6*time.Second))},
		{Name: "code-resend-failed", Steps: in(sent, later(61*time.Second), again(), settle(store.Failed))},
		{Name: "code-hour-spent", Steps: in(spent(5, 100*time.Second), later(3*time.Second))},
		{Name: "code-other-rules", Rules: unusualRules(), Steps: in(spent(3, time.Second))},
		{Name: "enough-minute", Steps: in(sent, later(12*time.Second), forget, send(Address))},
		{Name: "enough-hour", Steps: in(spent(5, 7*time.Minute), later(3*time.Minute), again())},
		{Name: "enough-day", Steps: in(spent(10, 55*time.Minute), later(5*time.Minute), forget, send(Address))},
		{Name: "enough-network", Rules: networkSpentRules(), Steps: in(send("ben@example.com"), send("cem@example.com"), send(Address))},
		{Name: "locked-out", Steps: in(lockOut, send(Address))},
		{Name: "locked-out-code", Steps: in(sent, lockOut, later(9*time.Second), check("111111"))},
		{Name: "too-many-requests", Steps: in(sent, exhaust)},
		{Name: "code-long", Steps: in(longCodes, sent, later(9*time.Second))},
		{Name: "code-long-approved", Steps: in(longCodes, sent, later(9*time.Second), check("4829 1376"))},
		{Name: "failed", Steps: in(send(Address), settle(store.Failed))},
		{Name: "failed-did-you-mean", Steps: in(sendDespiteDoubt(Slip), settle(store.Failed))},
		{Name: "too-many-tries", Steps: in(sent, later(20*time.Second), repeat(5, check("111111")))},
		{Name: "expired", Steps: in(sent, later(11*time.Minute))},
		{Name: "away", Steps: in(down, send(Address))},
		{Name: "away-reading", Steps: in(sent, down)},
		{Name: "offline", Steps: in(sent, later(10*time.Second)), Offline: true},
		{Name: "approved", Steps: in(sent, later(10*time.Second), check("482 913"))},
		{Name: "no-script", Steps: in(sent, later(18*time.Second)), NoScript: true},
	}
}

// forget deletes the visitor's cookies, as if another browser came.
func forget(w *World) error { w.Forget(); return nil }
