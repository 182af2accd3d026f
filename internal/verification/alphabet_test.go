package verification_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"sendcode/internal/code"
	"sendcode/internal/outbox"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

var anaByName = verification.Named{Channel: "email", To: vtest.Ana}

// letters is a rig whose default purpose has codes of eight unambiguous letters.
func letters(s *vtest.Settings) {
	p := s.Set.Purposes["default"]
	p.Alphabet, p.CodeLength = code.Unambiguous, 8
	s.Set.Purposes["default"] = p
}

// wrongLetters changes every character for another of the alphabet.
func wrongLetters(right string) string {
	all := code.Unambiguous.Characters()
	return strings.Map(func(r rune) rune { return rune(all[(strings.IndexRune(all, r)+1)%len(all)]) }, right)
}

// Two purposes or two recipients have as many codes in common as chance has it, n²/10⁶ of n each: what tells verifications
// apart is ID and nonce. Six standard deviations more or less are no chance any more.
func TestCodesAreSharedByChanceAlone(t *testing.T) {
	r := vtest.NewRig(t, nil)
	const n = 8_000
	of := func(purpose, to string) map[string]int {
		seen := map[string]int{}
		for range n {
			v, err := r.Svc.Fresh(r.Svc.Terms().Purposes[purpose], vtest.ParseEmail(t, to))
			if err != nil {
				t.Fatal(err)
			}
			sent, err := r.Svc.Vault.Code(v)
			if err != nil {
				t.Fatal(err)
			}
			seen[sent]++
		}
		return seen
	}
	groups := []map[string]int{of("default", vtest.Ana), of("login", vtest.Ana), of("default", "ben@example.com")}
	for i, mine := range groups {
		for _, theirs := range groups[i+1:] {
			shared, mean := 0, n*n/1e6
			for sent, times := range mine {
				shared += times * theirs[sent]
			}
			if math.Abs(float64(shared)-mean) > 6*math.Sqrt(mean) {
				t.Errorf("group %d shares %d codes with another, of %.0f expected", i, shared, mean)
			}
		}
	}
}

func TestLettersAreSentAndChecked(t *testing.T) {
	vtest.InBubbleWith(t, letters, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		sent := r.Code(0)
		if want := (code.Shape{Alphabet: code.Unambiguous, Length: 8}); a.View.Code != want || r.Get(a.View.ID).Code != want {
			t.Errorf("the view tells %v", a.View.Code)
		}
		for _, slip := range []string{"", "12345678", sent[:7] + "A", sent + "!"} {
			_, byID := r.Svc.Check(r.Context(), vtest.BackEnd, a.View.ID, slip)
			_, byName := r.Svc.CheckNamed(r.Context(), vtest.BackEnd, anaByName, slip)
			var bad *verification.InvalidError
			if !errors.As(byID, &bad) || bad.Field != "code" || !errors.As(byName, &bad) || bad.Field != "code" {
				t.Errorf("%q: %v, by name %v", slip, byID, byName)
			}
		}
		if v := r.Get(a.View.ID); v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("slips cost tries: %d left", v.AttemptsRemaining)
		}
		if c := r.Check(a.View.ID, wrongLetters(sent)); c.Valid || c.AttemptsRemaining != verification.MaxAttempts-1 {
			t.Errorf("wrong letters: %+v", c)
		}
		if c := r.Check(a.View.ID, strings.ToLower(sent[:4])+" - "+sent[4:]); !c.Valid {
			t.Errorf("the right letters: %+v", c)
		}
	})
}

// The configuration changes while codes live: each is of the alphabet that it was opened with, also when it is sent again.
func TestACodeKeepsItsAlphabet(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		sent := r.Code(0)
		changed := r.Settings
		changed.Set.Purposes = map[string]policy.Purpose{"default": r.Settings.Set.Purposes["default"]}
		letters(&changed)
		r.Svc.Change(changed.Set)
		r.Sleep(time.Minute)
		if b := r.SendTo(vtest.Ana); b.View.ID != a.View.ID || r.Code(1) != sent ||
			b.View.Code.Alphabet != code.Digits {
			t.Errorf("the resend is another: %+v", b.View)
		}
		var bad *verification.InvalidError
		if _, err := r.Svc.Check(r.Context(), vtest.BackEnd, a.View.ID, "BCDFGHJK"); !errors.As(err, &bad) || bad.Reason != "not_digits" {
			t.Errorf("letters for a code of digits: %v", err)
		}
		if c := r.Check(a.View.ID, sent); !c.Valid {
			t.Errorf("the code died with the change: %+v", c)
		}
		r.Sleep(time.Minute)
		c := r.SendTo(vtest.Ana)
		if got := r.Check(c.View.ID, r.Code(2)); c.View.Code != (code.Shape{Alphabet: code.Unambiguous, Length: 8}) ||
			!got.Valid {
			t.Errorf("the next one is not of letters: %+v", got)
		}
	})
}

// Whatever is typed, an unknown ID and another app's are one and the same 404.
func TestAnUnknownIDIsTheSameWhateverIsTyped(t *testing.T) {
	for name, change := range map[string]func(*vtest.Settings){"digits": nil, "letters": letters} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
				theirs := vtest.AskFor(vtest.Ana)
				theirs.App = "elsewhere"
				b := r.Send(theirs)
				for _, id := range []string{"unknown", b.View.ID} {
					for _, typed := range []string{"", "123456", "BCDFGHJK", "!", strings.Repeat("1", 65)} {
						if got, err := r.Svc.Check(r.Context(), vtest.BackEnd, id, typed); err != verification.ErrNotFound || got != (verification.Checked{}) {
							t.Errorf("%q: %v", typed, err)
						}
						if got, err := r.Svc.CheckNamed(r.Context(), vtest.BackEnd, verification.Named{Channel: "email", To: vtest.Ana},
							typed); err != verification.ErrNotFound || got != (verification.Checked{}) {
							t.Errorf("by name %q: %v", typed, err)
						}
					}
				}
			})
		})
	}
}

// A row of a later version, whose alphabet is not known here: that is not the person's mistake, so no code is called wrong.
func TestAnAlphabetOfAnotherVersion(t *testing.T) {
	vtest.InBubbleWith(t, letters, func(r *vtest.Rig) {
		r.Svc.Change(func() policy.Set {
			terms := r.Settings.Set
			p := terms.Purposes["default"]
			p.Alphabet = "runes"
			terms.Purposes = map[string]policy.Purpose{"default": p}
			return terms
		}())
		a := r.SendTo(vtest.Ana)
		if v := r.Get(a.View.ID); v.Send.Status != store.Failed || v.Send.Reason != outbox.ReasonUnreadable {
			t.Errorf("%+v", v.Send)
		}
		if _, err := r.Svc.Check(r.Context(), vtest.BackEnd, a.View.ID, "123456"); !errors.Is(err, verification.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	})
}

// A test recipient's code is what was configured, whatever the purpose's codes are made of.
func TestATestRecipientsCodeHasItsOwnShape(t *testing.T) {
	for sent, want := range map[string]code.Shape{"424242": {Alphabet: code.Digits, Length: 6},
		"BCDFGHJKL": {Alphabet: code.Unambiguous, Length: 9}} {
		vtest.InBubbleWith(t, func(s *vtest.Settings) {
			letters(s)
			s.TestRecipients = map[recipient.Hash]policy.TestRecipient{
				vtest.ParseEmail(t, "reviewer@example.com").Hash(s.Vault.IndexKey): {Code: sent, Expires: time.Now().Add(time.Hour)},
			}
		}, func(r *vtest.Rig) {
			a := r.SendTo("reviewer@example.com")
			if a.View.Code != want {
				t.Errorf("%v", a.View.Code)
			}
			if c := r.Check(a.View.ID, strings.ToLower(sent)); !c.Valid {
				t.Errorf("%s: %+v", sent, c)
			}
		})
	}
}
