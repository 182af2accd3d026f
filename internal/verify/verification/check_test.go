package verification_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/codes/code"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// A code has five attempts, and the last may be right; afterwards no code is accepted. The nine
// wrong codes differ from the right one at each of its six positions in turn: see
// codetest.WrongCodes.
func TestCheckCountsThenCompares(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		fifth := r.SendTo("bea@example.com")
		for range verification.MaxAttempts - 1 {
			r.Check(fifth.View.ID, r.WrongCode(r.Code(0)))
		}
		r.WantChecked("the right code, fifth", r.Check(fifth.View.ID, r.Code(0)), verification.Approved, true)
		r.WantChecked("used again", r.Check(fifth.View.ID, r.Code(0)), verification.Approved, false)
		a := r.SendTo(vtest.Ana)
		code := r.Code(1)
		for left := verification.MaxAttempts - 1; left > 0; left-- {
			c := r.Check(a.View.ID, r.WrongCode(code))
			r.WantChecked("a wrong code", c, verification.Pending, false)
			r.Want("tries left", c.AttemptsRemaining, left)
		}
		r.WantChecked("the fifth wrong code", r.Check(a.View.ID, r.WrongCode(code)), verification.MaxAttemptsReached, false)
		r.WantChecked("the right code after it", r.Check(a.View.ID, code), verification.MaxAttemptsReached, false)
		r.Want("canceled without tries left", r.Cancel(a.View.ID).State, "canceled")
	})
}

// disturbed is a database that calls a function before each check.
type disturbed struct {
	*sqlitetest.DB
	before func(id string)
}

func (d *disturbed) Check(ctx context.Context, c store.CheckRequest) (store.CheckAnswer, error) {
	d.before(c.ID)
	return d.DB.Check(ctx, c)
}

func TestCodeEndsWithItsLife(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		code := r.Code(0)
		r.Sleep(10*time.Minute - time.Microsecond)
		r.Want("a moment before the end", r.Get(a.View.ID).State, "pending")
		r.Sleep(time.Microsecond)
		// without the old key, no code can be compared
		r.Svc.SetVault(keys.Vault{IndexKey: r.Settings.Vault.IndexKey, Ring: vtest.KeyRing(t, "k2:"+vtest.NewKey)})
		r.WantChecked("after ten minutes", r.Check(a.View.ID, code), verification.Expired, false)
		r.Want("tries left", r.Get(a.View.ID).AttemptsRemaining, verification.MaxAttempts)
	})
}

func TestFailedResendKeepsTheCode(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.MailServer.Answer(vtest.NoMailbox)
		r.SendTo(vtest.Ana)
		vtest.Equal(r, "the resend: Number", r.Get(a.View.ID).Send.Number, 2)
		vtest.Equal(r, "the resend: Status", r.Status(a), "failed rejected")
		r.WantApproved(a.View.ID, r.Code(0))
	})
}

func TestCodeIsApprovedAfterARotation(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		code := r.Code(0)
		r.Svc.SetVault(keys.Vault{IndexKey: r.Settings.Vault.IndexKey, Ring: vtest.KeyRing(t, "k2:"+vtest.NewKey+",k1:"+vtest.OldKey)})
		r.WantChecked("a wrong code", r.Check(a.View.ID, r.WrongCode(code)), verification.Pending, false)
		r.WantApproved(a.View.ID, code)
	})
}

// If a client disconnects after its check has begun, the check goes on: the attempt counts, and the
// right code is approved.
func TestAHangUpStopsNoCheck(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		ctx, hangUp := context.WithCancel(r.Context())
		r.Svc.Checks = &disturbed{DB: r.Store, before: func(string) { hangUp() }}
		c, err := r.Svc.Check(ctx, vtest.BackEnd, a.View.ID, r.LastCode())
		r.NoError(err)
		r.WantChecked("the right code", c, verification.Approved, true)
		r.WantChecked("used again", r.Check(a.View.ID, r.LastCode()), verification.Approved, false)
	})
}

var anaByName = verification.Request{Caller: vtest.BackEnd, Channel: "email", To: vtest.Ana}

// letters sets codes of eight unambiguous letters for the default purpose.
func letters(s *vtest.Settings) {
	p := s.Set.Purposes["default"]
	p.Alphabet, p.CodeLength = code.Unambiguous, 8
	s.Set.Purposes["default"] = p
}

func TestLettersAreSentAndChecked(t *testing.T) {
	vtest.InBubbleWith(t, letters, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		sent := r.Code(0)
		format := code.Format{Alphabet: code.Unambiguous, Length: 8}
		vtest.Equal(r, "format in the answer", a.View.CodeFormat, format)
		vtest.Equal(r, "format in a look", r.Get(a.View.ID).CodeFormat, format)
		for _, slip := range []string{"", "12345678", sent[:7] + "A", "!" + sent[1:]} {
			r.WantInvalid(vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, a.View.ID, slip)), "code", "")
			r.WantInvalid(vtest.Err(r.Svc.CheckByRecipient(r.Context(), anaByName, slip)), "code", "")
		}
		r.WantChecked("wrong letters", r.Check(a.View.ID, r.WrongCode(sent)), verification.Pending, false)
		r.Want("tries left", r.Get(a.View.ID).AttemptsRemaining, verification.MaxAttempts-1)
		r.WantApproved(a.View.ID, strings.ToLower(sent[:4])+" - "+sent[4:])
	})
}

// The configuration changes while codes live. Each code keeps the alphabet with which its
// verification was opened, also when it is sent again.
func TestACodeKeepsItsAlphabet(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		sent := r.Code(0)
		changed := r.Settings
		changed.Set.Purposes = map[string]policy.Purpose{"default": r.Settings.Set.Purposes["default"]}
		letters(&changed)
		r.Svc.Change(changed.Set)
		r.Sleep(time.Minute)
		b := r.SendTo(vtest.Ana)
		vtest.Equal(r, "the resend: ID", b.View.ID, a.View.ID)
		vtest.Equal(r, "the resend", r.Code(1), sent)
		vtest.Equal(r, "the resend: Alphabet", b.View.CodeFormat.Alphabet, code.Digits)
		r.WantInvalid(vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, a.View.ID, "BCDFGHJK")), "code", "not_digits")
		r.WantApproved(a.View.ID, sent)
		r.Sleep(time.Minute)
		c := r.SendTo(vtest.Ana)
		r.Want("the next one", c.View.CodeFormat, "{unambiguous 8}")
		r.WantApproved(c.View.ID, r.Code(2))
	})
}

// Spaces and dashes do not count as characters. A text that is longer or shorter than the code
// costs neither an attempt nor a failed check, whatever the length of the purpose's other codes.
func TestAWrongLengthCostsNoTry(t *testing.T) {
	for name, c := range map[string]struct {
		right, detail string // right is the configured code; if it is empty, the code comes from a mail
		change        func(*vtest.Settings)
	}{
		"digits":              {detail: "The code has 6 digits."},
		"letters":             {detail: "The code has 8 letters.", change: letters},
		"configured, longer":  {right: "42424242", detail: "The code has 8 digits."},
		"configured, letters": {right: "BCDFGHJKLM", detail: "The code has 10 letters."},
		"configured, shorter": {right: "424242", detail: "The code has 6 digits.", change: letters},
	} {
		change := func(s *vtest.Settings) {
			if c.change != nil {
				c.change(s)
			}
			if c.right != "" {
				vtest.TestRecipient(t, vtest.Ana, c.right)(s)
			}
		}
		t.Run(name, func(t *testing.T) {
			vtest.InBubbleWith(t, change, func(r *vtest.Rig) {
				id, right := r.SendTo(vtest.Ana).View.ID, c.right
				if right == "" {
					right = r.Code(0)
				}
				r.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
					if call == "Take" {
						r.Error("a failed check was counted")
					}
					return do()
				})
				for slip, reason := range map[string]string{" - " + right[2:] + "- -": "too_short", right + right[:1]: "too_long"} {
					for _, err := range []error{
						vtest.Err(r.Svc.Check(r.Context(), vtest.BackEnd, id, slip)),
						vtest.Err(r.Svc.CheckByRecipient(r.Context(), anaByName, slip)),
					} {
						r.WantInvalid(err, "code", reason)
						bad, _ := errors.AsType[*fault.InvalidError](err)
						r.Want("the sentence", bad.Detail, c.detail)
					}
				}
				r.Want("tries left", r.Get(id).AttemptsRemaining, verification.MaxAttempts)
				r.Limiter.Intercept(nil)
				r.WantApproved(id, right[:2]+"-"+right[2:]+" ist Ihr Code.\n@shop.example #"+right)
			})
		})
	}
}

// If the client's address is known, or if the check is by recipient, a check first reads the
// verification once. If the verification has ended, the check makes no other call. If the ID is
// unknown or belongs to another app or, for a browser, to a back end, the check calls the database
// and the limiter as often as a check that compares.
func TestACheckAsksAsOftenAsNeeded(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		id, backEnds := r.Send(byBrowser(vtest.Ana)).View.ID, r.SendTo("bea@example.com").View.ID
		others := r.SendTo(vtest.Ana, vtest.InApp("elsewhere")).View.ID
		r.Sleep(time.Minute) // until nothing else is under way
		// without an ID, the check is by recipient
		asked := func(what string, c verification.Caller, id, wantDB, wantLimiter string, wantErr error) {
			t.Helper()
			var db, limiter []string
			var last string
			r.Store.SetFault(func(method string) sqlitetest.Fault {
				if method != last { // the hook runs before each statement of a read
					db, last = append(db, method), method
				}
				return sqlitetest.None
			})
			r.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
				limiter = append(limiter, call)
				return do()
			})
			var err error
			if id != "" {
				_, err = r.Svc.Check(r.Context(), c, id, "000000")
			} else {
				_, err = r.Svc.CheckByRecipient(r.Context(), verification.Request{Caller: c, Channel: "email", To: "bea@example.com"},
					"000000")
			}
			r.EndStoreFaults()
			r.Limiter.Intercept(nil)
			vtest.Equal(r, what+": calls of the database", strings.Join(db, " "), wantDB)
			vtest.Equal(r, what+": calls of the limiter", strings.Join(limiter, " "), wantLimiter)
			r.WantError(err, wantErr)
		}
		noIP := vtest.BackEnd
		noIP.IP = netip.Addr{}
		asked("by ID", vtest.Browser, id, "VerificationsByID Check", "Take", nil)
		asked("by ID without an IP", noIP, id, "Check", "", nil)
		asked("by recipient", vtest.BackEnd, "", "VerificationToCheck Check", "Take", nil)
		asked("by recipient without an IP", noIP, "", "VerificationToCheck Check", "", nil)
		for _, unknown := range []string{"unknown", others, backEnds} {
			asked(unknown, vtest.Browser, unknown, "VerificationsByID Check", "Peek", fault.NotFound)
		}
		r.Cancel(id)
		asked("one that has ended", vtest.Browser, id, "VerificationsByID", "", nil)
	})
}

// An unknown ID and an ID of another app get the same 404 for any code.
func TestCheckUnknownID(t *testing.T) {
	vtest.InBubbleWith(t, letters, func(r *vtest.Rig) {
		b := r.SendTo(vtest.Ana, vtest.InApp("elsewhere"))
		for _, typed := range []string{"", "123456", "1234567", "BCDFGHJK", "!", strings.Repeat("1", 65)} {
			for _, id := range []string{"unknown", b.View.ID} {
				got, err := r.Svc.Check(r.Context(), vtest.BackEnd, id, typed)
				vtest.Equal(r, typed, got, verification.CheckResult{})
				r.WantError(err, fault.NotFound)
			}
			got, err := r.Svc.CheckByRecipient(r.Context(), anaByName, typed)
			vtest.Equal(r, "by name "+typed, got, verification.CheckResult{})
			r.WantError(err, fault.NotFound)
		}
	})
}

func TestCancelEndsACode(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		code := r.Code(0)
		r.FailStore(sqlitetest.Down, "Cancel")
		r.WantError(vtest.Err(r.Svc.Cancel(r.Context(), vtest.BackEnd, a.View.ID)), fault.Unavailable)
		r.EndStoreFaults()
		for range 2 { // a second call does no harm
			v := r.Cancel(a.View.ID)
			vtest.Equal(r, "canceled: ID", v.ID, a.View.ID)
			vtest.Equal(r, "canceled: State", v.State, "canceled")
		}
		r.FailStore(sqlitetest.Down, "Cancel")
		// Cancel writes again, because a standby may lack the first cancellation.
		r.WantError(vtest.Err(r.Svc.Cancel(r.Context(), vtest.BackEnd, a.View.ID)), fault.Unavailable)
		r.EndStoreFaults()
		r.WantChecked("the right code", r.Check(a.View.ID, code), verification.Canceled, false)
		r.Want("tries left", r.Get(a.View.ID).AttemptsRemaining, verification.MaxAttempts)
		r.Sleep(time.Minute)
		again := r.Send(verification.Request{Caller: vtest.BackEnd, Resend: a.View.ID})
		r.Check(again.View.ID, r.LastCode())
		r.Want("canceled after it was approved", r.Cancel(again.View.ID).State, "approved")
		vtest.Equal(r, "the resend has the same", again.View.ID == a.View.ID, false)
		vtest.Equal(r, "the resend has the same", r.Code(1) == code, false)
	})
}

func TestCheckNamedMeansTheHoldersNewest(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		named := func(n verification.Request, code string) (verification.CheckResult, error) {
			n.Caller, n.Channel, n.To = vtest.BackEnd, "email", vtest.Ana
			return r.Svc.CheckByRecipient(r.Context(), n, code)
		}
		want := func(what, code string, state verification.State, valid bool) {
			c, err := named(verification.Request{Session: "s-1"}, code)
			r.NoError(err)
			r.WantChecked(what, c, state, valid)
		}
		a := r.SendTo(vtest.Ana, vtest.InSession("s-1")).View.ID
		code := r.Code(0)
		r.Sleep(time.Minute)
		b := r.Send(byBrowser(vtest.Ana)).View.ID
		for _, n := range []verification.Request{{}, {Session: "s-2"}, {Session: "s-1", Purpose: "login"}} {
			r.WantError(vtest.Err(named(n, code)), fault.NotFound)
		}
		for _, by := range []verification.Caller{vtest.Browser, {App: "elsewhere", Kind: verification.BackEnd}} {
			ask := anaByName
			ask.Caller, ask.Session = by, "s-1"
			r.WantError(vtest.Err(r.Svc.CheckByRecipient(r.Context(), ask, code)), fault.NotFound)
		}
		noChannel := verification.Request{Caller: vtest.BackEnd, To: vtest.Ana}
		r.WantInvalid(vtest.Err(r.Svc.CheckByRecipient(r.Context(), noChannel, code)), "channel", "")
		want("a wrong code", r.WrongCode(code), verification.Pending, false)
		vtest.Equal(r, "tries left: AttemptsRemaining", r.Get(a).AttemptsRemaining, 4)
		vtest.Equal(r, "tries left: AttemptsRemaining", r.Get(b).AttemptsRemaining, 5)
		want("the right code", code, verification.Approved, true)
		r.WantError(vtest.Err(named(verification.Request{Session: "s-1"}, code)), fault.NotFound)
		vtest.Equal(r, "of the browser's own", r.Get(a).State, "approved")
		vtest.Equal(r, "this", r.Get(b).State, "pending")
	})
}
