package verification_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/verify/proof"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

func TestResend(t *testing.T) {
	session := func(id string) func(*verification.Request) { return func(a *verification.Request) { a.Session = id } }
	browser := func(a *verification.Request) { a.Caller = vtest.Browser }
	stranger := func(a *verification.Request) { a.Trust = verification.ImpliedStranger }
	type row struct {
		first, again func(*verification.Request)
		named        bool // the second request names the first one's verification
		same         bool
	}
	vtest.EachInBubble(t, map[string]row{
		"same back end":                       {same: true},
		"same session":                        {first: session("s1"), again: session("s1"), same: true},
		"another session":                     {first: session("s1"), again: session("s2")},
		"no session after one":                {first: session("s1")},
		"another purpose of the policy":       {again: func(a *verification.Request) { a.Purpose = "login" }},
		"browser that knows the address only": {again: browser},
		"browser that names it":               {first: browser, again: browser, named: true, same: true},
		"browser that names it and nothing else": {
			first: browser, named: true, same: true,
			again: func(a *verification.Request) { *a = verification.Request{Caller: vtest.Browser} },
		},
		"browser after browser": {first: browser, again: browser},
		"strangers":             {first: stranger, again: stranger},
		"stranger's session": {
			first: func(a *verification.Request) { stranger(a); session("s1")(a) }, same: true,
			again: func(a *verification.Request) { stranger(a); session("s1")(a) },
		},
		"stranger, named": {first: stranger, again: stranger, named: true, same: true},
		"folded address":  {again: func(a *verification.Request) { a.To = "Ana.Maria@EXAMPLE.com" }, same: true},
	}, nil, func(r *vtest.Rig, c row) {
		ask, again := vtest.AskFor(vtest.Ana), vtest.AskFor(vtest.Ana)
		if c.first != nil {
			c.first(&ask)
		}
		if c.again != nil {
			c.again(&again)
		}
		first := r.Send(ask)
		r.Sleep(time.Minute)
		if c.named {
			again.Resend = first.View.ID
		}
		second := r.Send(again)
		vtest.Equal(r, "same verification", second.View.ID == first.View.ID, c.same)
		vtest.Equal(r, "code", r.Code(0) == r.Code(1), c.same)
		if v := second.View; c.same {
			vtest.Equal(r, "number", v.Send.Number, 2)
			vtest.Equal(r, "expiry", v.ExpiresAt, first.View.ExpiresAt)
		}
	})
}

// A browser cannot reach a verification that a back end opened, nor can the back end of another app
// reach one of this app. A back end may use a verification that a browser opened.
func TestABrowserReachesNothingOfABackEnd(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		mine, theirs := r.SendTo(vtest.Ana, vtest.InSession("s-1")).View.ID,
			r.SendTo("bob@example.com", vtest.By(vtest.ForStranger)).View.ID
		r.Sleep(time.Minute)
		for _, by := range []verification.Caller{vtest.Browser, {App: "elsewhere", Kind: verification.BackEnd}} {
			for _, asked := range []string{mine, theirs, "unknown"} {
				for what, err := range map[string]error{
					"look":   vtest.Err(r.Svc.Get(r.Context(), by, asked)),
					"check":  vtest.Err(r.Svc.Check(r.Context(), by, asked, "000000")),
					"cancel": vtest.Err(r.Svc.Cancel(r.Context(), by, asked)),
					"resend": r.SendError(verification.Request{Caller: by, Resend: asked}),
				} {
					if !errors.Is(err, fault.NotFound) {
						r.Errorf("%s of %s by an app %s: %v", what, asked, by.App, err)
					}
				}
			}
		}
		r.WantMails(2)
		for _, id := range []string{mine, theirs} {
			vtest.Equal(r, "the back end's: State", r.Get(id).State, "pending")
			vtest.Equal(r, "the back end's: AttemptsRemaining", r.Get(id).AttemptsRemaining, 5)
			r.Want("canceled by it", r.Cancel(id).State, "canceled")
		}
		own := r.Send(byBrowser(vtest.Ana)).View.ID
		r.Sleep(time.Minute)
		again := r.Send(verification.Request{Caller: vtest.BackEnd, Resend: own})
		vtest.Equal(r, "a back end sends the browser's again: ID", again.View.ID, own)
		vtest.Equal(r, "a back end sends the browser's again: code", r.Code(3), r.Code(2))
		r.Want("and cancels it", r.Cancel(own).State, "canceled")
	})
}

// A code is not sent again if less than a fifth of its life, at most 120 s, is left. In
// TestABrowserIsToldOfItsOwnSends 119 s of ten minutes are left.
func TestResendNearTheEndMakesANewCode(t *testing.T) {
	short := func(s *vtest.Settings) {
		p := s.Purposes["default"]
		p.TTL = 100 * time.Second
		s.Purposes["default"] = p
	}
	vtest.InBubbleWith(t, short, func(r *vtest.Rig) {
		first := r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.Want("with 40 of 100 s left", r.SendTo(vtest.Ana).View.ID, first.View.ID)
		r.Sleep(time.Minute)
		third := r.SendTo(vtest.Ana)
		r.Sleep(81 * time.Second)
		r.Want("with 19 of 100 s left it is the same", r.SendTo(vtest.Ana).View.ID == third.View.ID, false)
	})
}

const (
	plainAna  = "ana@gmail.com"
	taggedAna = "An.A+shop@gmail.com"
	otherAna  = "a.na+mail@gmail.com"
)

func TestSpellingsShareOneQuota(t *testing.T) {
	vtest.InBubbleWith(t, vtest.FoldGmail, func(r *vtest.Rig) {
		r.SendTo(taggedAna)
		r.Want("the mail's recipient", r.MailServer.Attempts()[0].To, taggedAna)
		for _, to := range []string{plainAna, otherAna, taggedAna} {
			r.WantWait(r.RefuseTo(to).Quota, time.Minute)
			h, err := r.Svc.Administration.HashRecipient("email", to)
			r.NoError(err)
			r.Want(to, h, vtest.ParseEmail(t, plainAna).Hash(r.Settings.Vault.IndexKey))
		}
		r.SendTo("ana@example.com") // this address has another domain
		r.ReplaceLimiter()
		r.WantWait(r.RefuseTo(plainAna).Quota, time.Minute)
	})
}

// Each spelling has a verification of its own. A resend, even one by ID, goes only to that
// spelling.
func TestResendGoesToItsSpellingAlone(t *testing.T) {
	vtest.InBubbleWith(t, vtest.FoldGmail, func(r *vtest.Rig) {
		var ids []string
		for _, to := range []string{taggedAna, plainAna, otherAna} {
			a := r.SendTo(to)
			if slices.Contains(ids, a.View.ID) {
				t.Errorf("%s joined the verification of another spelling", to)
			}
			ids = append(ids, a.View.ID)
			r.Sleep(time.Minute)
		}
		for _, to := range []string{plainAna, otherAna} {
			r.WantInvalid(r.SendError(verification.Request{
				Caller: vtest.BackEnd, Channel: "email", To: to,
				Resend: ids[0],
			}), "to", "mismatch")
		}
		for n, ask := range []verification.Request{
			vtest.AskFor("an.a+SHOP@gmail.com"), // the typed address, with another case
			{Caller: vtest.BackEnd, Channel: "email", To: taggedAna, Resend: ids[0]},
		} {
			again := r.Send(ask).View
			vtest.Equal(r, "its own holder's: ID", again.ID, ids[0])
			vtest.Equal(r, "its own holder's: Number", again.Send.Number, 2+n)
			r.Sleep(time.Minute)
		}
		for i, to := range []string{taggedAna, plainAna, otherAna, taggedAna, taggedAna} {
			what := fmt.Sprintf("mail %d: ", i)
			vtest.Equal(r, what+"its recipient", r.MailServer.Attempts()[i].To, to)
			vtest.Equal(r, what+"it has the code of the first", r.Code(i) == r.Code(0), to == taggedAna)
		}
	})
}

func TestCheckNamedMeansTheSpelling(t *testing.T) {
	vtest.InBubbleWith(t, vtest.FoldGmail, func(r *vtest.Rig) {
		tagged := r.SendTo(taggedAna)
		r.Sleep(time.Minute)
		plain := r.SendTo(plainAna)
		for to, want := range map[string]struct { // results of a check of the first spelling's code
			id    string
			valid bool
			err   error
		}{
			otherAna:  {err: fault.NotFound}, // no code was requested for this spelling
			plainAna:  {id: plain.View.ID},
			taggedAna: {id: tagged.View.ID, valid: true},
		} {
			c, err := r.Svc.CheckByRecipient(r.Context(), verification.Request{Caller: vtest.BackEnd, Channel: "email", To: to}, r.Code(0))
			vtest.Equal(r, to+": ID", c.ID, want.id)
			vtest.Equal(r, to+": Valid", c.Valid, want.valid)
			vtest.Equal(r, to+": error", err, want.err)
		}
	})
}

// prover is a ProofSigner that records the recipient hashes of the proofs.
type prover struct{ subjects []string }

func (p *prover) Sign(f proof.Claims, _ time.Time) (string, error) {
	p.subjects = append(p.subjects, f.RecipientHash)
	return fmt.Sprint("proof ", len(p.subjects)), nil
}

// A proof has the spelling to which the code was sent, even if the row was written under another
// folding.
func TestAProofIsOfTheSpelling(t *testing.T) {
	vtest.InBubbleWith(t, vtest.FoldGmail, func(r *vtest.Rig) {
		p := &prover{}
		r.Svc.ProofSigner = p
		var want []string
		for i, to := range []string{plainAna, taggedAna, otherAna} {
			a := r.SendTo(to)
			if to == otherAna {
				r.Svc.Vault.Folding = nil
			}
			r.Want("the proof", r.Check(a.View.ID, r.Code(i)).Proof, fmt.Sprint("proof ", i+1))
			want = append(want, vtest.ParseEmail(t, to).Hash(r.Settings.Vault.IndexKey).String())
			r.Sleep(time.Minute)
		}
		r.Want("who is proven", p.subjects, want)
	})
}

// The known code of a test recipient cannot prove another address.
func TestATestRecipientIsOneSpelling(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		vtest.FoldGmail(s)
		vtest.TestRecipient(t, plainAna, "424242")(s)
	}, func(r *vtest.Rig) {
		a := r.SendTo(taggedAna)
		vtest.Equal(r, "another spelling is a test recipient: Test", a.View.Test, false)
		vtest.Equal(r, "another spelling is a test recipient: Test", r.Get(a.View.ID).Test, false)
		r.WantMails(1)
		if code := r.Code(0); code != "424242" {
			r.WantChecked("the known code", r.Check(a.View.ID, "424242"), verification.Pending, false)
			r.WantApproved(a.View.ID, code)
		}
		r.Sleep(time.Minute)
		b := r.SendTo(plainAna)
		r.Want("the test recipient itself", b.View.Test, true)
		r.WantApproved(b.View.ID, "424242")
		r.WantMails(1)
		r.Sleep(time.Hour) // the configured code is no longer valid
		r.Want("an approval by the configured code stays one", r.Get(b.View.ID).Test, true)
	})
}

// When folding is turned on, codes sent before can still be checked by ID, and the simplest
// spelling keeps its counted sends.
func TestTurningFoldingOnKeepsCodesAndCounts(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		tagged := r.SendTo(taggedAna)
		r.SendTo(plainAna) // the spellings are still two recipients
		vtest.FoldGmail(&r.Settings)
		r.Svc.SetVault(r.Settings.Vault)
		r.RefuseTo(plainAna)
		r.RefuseTo(otherAna)
		r.Sleep(time.Minute)
		again := r.Send(verification.Request{Caller: vtest.BackEnd, Resend: tagged.View.ID}).View
		vtest.Equal(r, "the same verification", again.ID == tagged.View.ID, false)
		vtest.Equal(r, "its recipient", r.MailServer.Attempts()[2].To, taggedAna)
		r.WantApproved(tagged.View.ID, r.Code(0))
	})
}
