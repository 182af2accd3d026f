package verification_test

import (
	"strings"
	"testing"
	"time"

	"sendcode/internal/code"
	"sendcode/internal/policy"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

var anaByName = verification.Ask{Caller: vtest.BackEnd, Channel: "email", To: vtest.Ana}

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

func TestLettersAreSentAndChecked(t *testing.T) {
	vtest.InBubbleWith(t, letters, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		sent := r.Code(0)
		if want := (code.Shape{Alphabet: code.Unambiguous, Length: 8}); a.View.Code != want || r.Get(a.View.ID).Code != want {
			t.Errorf("the view tells %v", a.View.Code)
		}
		for _, slip := range []string{"", "12345678", sent[:7] + "A", sent + "!"} {
			r.WantInvalid(vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, a.View.ID, slip)), "code", "")
			r.WantInvalid(vtest.Err(r.Svc.CheckNamed(r.Context(), anaByName, slip)), "code", "")
		}
		if v := r.Get(a.View.ID); v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("slips cost tries: %d left", v.AttemptsRemaining)
		}
		if c := r.Check(a.View.ID, wrongLetters(sent)); c.Valid || c.AttemptsRemaining != verification.MaxAttempts-1 {
			t.Errorf("wrong letters: %+v", c)
		}
		r.WantApproved(a.View.ID, strings.ToLower(sent[:4])+" - "+sent[4:])
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
		r.WantInvalid(vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, a.View.ID, "BCDFGHJK")), "code", "not_digits")
		r.WantApproved(a.View.ID, sent)
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
	vtest.InBubbleWith(t, letters, func(r *vtest.Rig) {
		theirs := vtest.AskFor(vtest.Ana)
		theirs.App = "elsewhere"
		b := r.Send(theirs)
		for _, typed := range []string{"", "123456", "BCDFGHJK", "!", strings.Repeat("1", 65)} {
			for _, id := range []string{"unknown", b.View.ID} {
				got, err := r.Svc.Check(r.Context(), vtest.BackEnd, id, typed)
				if err != verification.ErrNotFound || got != (verification.Checked{}) {
					t.Errorf("%q: %v", typed, err)
				}
			}
			if got, err := r.Svc.CheckNamed(r.Context(), anaByName, typed); err != verification.ErrNotFound ||
				got != (verification.Checked{}) {
				t.Errorf("by name %q: %v", typed, err)
			}
		}
	})
}
