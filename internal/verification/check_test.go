package verification_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/code"
	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/vault"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

// Five tries, of which the last may be right; afterwards no code is.
func TestCheckCountsThenCompares(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		fifth := r.SendTo("bea@example.com")
		for range verification.MaxAttempts - 1 {
			r.Check(fifth.View.ID, vtest.WrongCode(r.Code(0)))
		}
		for _, valid := range []bool{true, false} { // then it is used
			if c := r.Check(fifth.View.ID, r.Code(0)); c.Valid != valid || c.State != verification.Approved {
				t.Fatalf("%+v", c)
			}
		}
		a := r.SendTo(vtest.Ana)
		code := r.Code(1)
		for left := verification.MaxAttempts - 1; left > 0; left-- {
			if c := r.Check(a.View.ID, vtest.WrongCode(code)); c.Valid || c.State != verification.Pending || c.AttemptsRemaining != left {
				t.Fatalf("wrong code: %+v, want %d left", c, left)
			}
		}
		if c := r.Check(a.View.ID, vtest.WrongCode(code)); c.Valid || c.State != verification.MaxAttemptsReached {
			t.Fatalf("fifth wrong code: %+v", c)
		}
		if c := r.Check(a.View.ID, code); c.Valid || c.State != verification.MaxAttemptsReached {
			t.Fatalf("the right code after five wrong ones: %+v", c)
		}
	})
}

func TestOneRightAnswerIsApproved(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		code := r.Code(0)
		var valid atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if r.Check(a.View.ID, code).Valid {
					valid.Add(1)
				}
			})
		}
		wg.Wait()
		if valid.Load() != 1 {
			t.Errorf("%d approved", valid.Load())
		}
	})
}

// rival is a log in which another caller's right answer is always a moment earlier.
type rival struct{ *sqlite.DB }

func (l rival) Approve(ctx context.Context, id string, tell store.NewEvent) (bool, error) {
	if _, err := l.DB.Approve(ctx, id, store.NewEvent{}); err != nil {
		return false, err
	}
	return l.DB.Approve(ctx, id, tell)
}

func TestSecondRightAnswerIsNotApproved(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		r.Svc.Store = rival{r.Store}
		if c := r.Check(a.View.ID, r.Code(0)); c.Valid || c.State != verification.Approved {
			t.Errorf("%+v", c)
		}
	})
}

func TestCodeDies(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		code := r.Code(0)
		r.Sleep(10*time.Minute - time.Microsecond)
		if v := r.Get(a.View.ID); v.State != verification.Pending {
			t.Fatalf("a moment before the end: %s", v.State)
		}
		r.Sleep(time.Microsecond)
		if c := r.Check(a.View.ID, code); c.Valid || c.State != verification.Expired {
			t.Errorf("after ten minutes: %+v", c)
		}
		if v := r.Get(a.View.ID); v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("a check of a dead code counted: %d left", v.AttemptsRemaining)
		}
	})
}

func TestFailedResendKeepsTheCode(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.MailServer.Answer(vtest.NoMailbox)
		r.SendTo(vtest.Ana)
		if v := r.Get(a.View.ID); v.Send.Number != 2 || v.Send.Status == store.Sent {
			t.Fatalf("the resend should have failed: %+v", v.Send)
		}
		r.WantApproved(a.View.ID, r.Code(0))
	})
}

func TestRotationBreaksNoLiveCode(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		code := r.Code(0)
		r.Svc.Use(vault.Vault{IndexKey: r.Settings.Vault.IndexKey, Ring: vtest.KeyRing(t, "k2:"+vtest.NewKey+",k1:"+vtest.OldKey)})
		if c := r.Check(a.View.ID, vtest.WrongCode(code)); c.Valid {
			t.Error("a wrong code was approved")
		}
		r.WantApproved(a.View.ID, code)
	})
}

// attempts is a log that notes for which verifications tries are counted.
type attempts struct {
	*sqlite.DB
	of     []string
	before func() // a try is counted
}

func (a *attempts) Attempt(ctx context.Context, id string) (store.Verification, bool, time.Time, error) {
	a.of = append(a.of, id)
	if a.before != nil {
		a.before()
	}
	return a.DB.Attempt(ctx, id)
}

// A check of an unknown ID goes to the log as often as one of a known ID does, so that its time does not tell which it is.
func TestAnUnknownIDIsCheckedInTheSameTrips(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		log := &attempts{DB: r.Store}
		r.Svc.Store = log
		a := r.SendTo(vtest.Ana)
		r.Check(a.View.ID, vtest.WrongCode(r.LastCode()))
		r.WantError(vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, "unknown", "123456")), verification.ErrNotFound)
		if len(log.of) != 2 || log.of[0] != a.View.ID || log.of[1] != "" {
			t.Errorf("tries were counted for %q", log.of)
		}
	})
}

// A client that hangs up after its check has begun stops nothing: the try counts, and the right code is approved. A check of a code
// that is used asks no log to count anything.
func TestAHangUpStopsNoCheck(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		ctx, hangUp := context.WithCancel(r.Context())
		log := &attempts{DB: r.Store, before: hangUp}
		r.Svc.Store = log
		if c, err := r.Svc.Check(ctx, vtest.BackEnd, a.View.ID, r.LastCode()); err != nil || !c.Valid || c.State != verification.Approved {
			t.Errorf("%+v, %v", c, err)
		}
		if c := r.Check(a.View.ID, r.LastCode()); c.Valid || c.State != verification.Approved || len(log.of) != 1 {
			t.Errorf("used again: %+v, %d tries", c, len(log.of))
		}
	})
}

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

func TestCancelEndsACode(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		code := r.Code(0)
		for range 2 { // repeating is harmless
			if v := r.Cancel(a.View.ID); v.State != verification.Canceled || v.ID != a.View.ID {
				t.Fatalf("%+v", v)
			}
		}
		if c := r.Check(a.View.ID, code); c.Valid || c.State != verification.Canceled {
			t.Errorf("the right code of a canceled one: %+v", c)
		}
		if v := r.Get(a.View.ID); v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("a check of a canceled one counted: %d left", v.AttemptsRemaining)
		}
		r.Sleep(time.Minute)
		again := r.Send(verification.Ask{Caller: vtest.BackEnd, Resend: a.View.ID})
		r.Check(again.View.ID, r.LastCode())
		if v := r.Cancel(again.View.ID); v.State != verification.Approved {
			t.Errorf("canceled after it was approved: %+v", v)
		}
		r.FailStore(sqlite.Down, "Cancel")
		r.WantError(vtest.Err(r.Svc.Cancel(r.Context(), vtest.BackEnd, a.View.ID)), verification.ErrUnavailable)
		r.MendStore()
		if again.View.ID == a.View.ID || r.Code(1) == code {
			t.Error("a canceled code was sent again")
		}
	})
}

func TestCheckNamedMeansTheHoldersNewest(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		named := func(n verification.Ask, code string) (verification.Checked, error) {
			n.Caller, n.Channel, n.To = vtest.BackEnd, "email", vtest.Ana
			return r.Svc.CheckNamed(r.Context(), n, code)
		}
		mine := vtest.AskFor(vtest.Ana)
		mine.Session = "s-1"
		a := r.Send(mine)
		code := r.Code(0)
		r.Sleep(time.Minute)
		theirs := vtest.AskFor(vtest.Ana)
		theirs.Caller = vtest.Browser
		b := r.Send(theirs)
		for _, n := range []verification.Ask{{}, {Session: "s-2"}, {Session: "s-1", Purpose: "login"}} {
			r.WantError(vtest.Err(named(n, code)), verification.ErrNotFound)
		}
		if c, err := named(verification.Ask{Session: "s-1"}, vtest.WrongCode(code)); err != nil || c.Valid || c.ID != a.View.ID ||
			c.AttemptsRemaining != verification.MaxAttempts-1 {
			t.Errorf("wrong code: %+v, %v", c, err)
		}
		if c, err := named(verification.Ask{Session: "s-1"}, code); err != nil || !c.Valid || c.ID != a.View.ID {
			t.Errorf("right code: %+v, %v", c, err)
		}
		r.WantError(vtest.Err(named(verification.Ask{Session: "s-1"}, code)), verification.ErrNotFound)
		if v := r.Get(b.View.ID); v.State != verification.Pending || v.AttemptsRemaining != verification.MaxAttempts {
			t.Errorf("the browser's own was touched: %+v", v)
		}
	})
}

func TestCheckNamedRefuses(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		check := func(change func(*verification.Ask)) error {
			ask := anaByName
			change(&ask)
			return vtest.Err(r.Svc.CheckNamed(r.Context(), ask, "123456"))
		}
		r.WantError(check(func(a *verification.Ask) { a.Caller = vtest.Browser }), verification.ErrNotFound)
		r.WantError(check(func(a *verification.Ask) { a.App = "elsewhere" }), verification.ErrNotFound)
		r.WantInvalid(check(func(a *verification.Ask) { a.Channel = "" }), "channel", "")
		r.WantInvalid(check(func(a *verification.Ask) { a.To = "" }), "to", "")
		r.WantInvalid(check(func(a *verification.Ask) { a.Purpose = "none" }), "purpose", "")
		r.WantInvalid(vtest.Err(r.Svc.CheckNamed(r.Context(), anaByName, "12345x")), "code", "")
	})
}
