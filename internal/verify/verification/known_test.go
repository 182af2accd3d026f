package verification_test

import (
	"encoding/base64"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

func presenting(tokens ...string) vtest.Option {
	return func(a *verification.Request) { a.KnownTokens = tokens }
}

// knownBrowser enters Ana's code in a browser and returns the browser's token.
func knownBrowser(r *vtest.Rig, options ...vtest.Option) string {
	r.Helper()
	ask := byBrowser(vtest.Ana, options...)
	id := r.Send(ask).View.ID
	checked, _, _ := r.Try(ask.Caller, id, r.LastCode())
	r.WantChecked("a browser", checked, verification.Approved, true)
	return checked.KnownToken
}

// A token is valid for the app and the address of its verification, for 90 days, until the
// verification is erased, and while its key is in the ring. In case of doubt, the browser counts as
// unknown. The database is read only for the verification of a token that matches.
func TestKnownBrowsers(t *testing.T) {
	roomy := vtest.WithReserve(map[string]int{"hour": 900},
		vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 1000, Window: time.Hour}))
	vtest.InForms(t, vtest.DayTick(roomy), func(r *vtest.Rig) {
		token := knownBrowser(r)
		limit := func(s *vtest.Service, ask verification.Request) int {
			t.Helper()
			a, err := s.Send(r.Context(), ask)
			r.NoError(err)
			r.Sleep(0) // until the mail is sent, so that a later LastCode reads the mail of its own send
			return a.Quota.Rules[0].Limit
		}
		forged, _ := base64.RawURLEncoding.DecodeString(token)
		forged[len(forged)-1] ^= 1
		reads := 0
		r.Store.SetFault(func(method string) sqlitetest.Fault {
			if method == "VerificationsByID" {
				reads++
			}
			return sqlitetest.None
		})
		r.Want("a known browser", limit(r.Svc, byBrowser(vtest.Ana, presenting("other", token, token))), 1000)
		r.Want("reads", reads, 1)
		elsewhere := byBrowser(vtest.Ana, presenting(token))
		elsewhere.App = "other"
		for what, ask := range map[string]verification.Request{
			"no token":        byBrowser(vtest.Ana),
			"no text of ours": byBrowser(vtest.Ana, presenting("", "%", "AQ")),
			"forged":          byBrowser(vtest.Ana, presenting(base64.RawURLEncoding.EncodeToString(forged))),
			"another address": byBrowser("bob@example.com", presenting(token)),
			"another app":     elsewhere,
		} {
			r.Want(what, limit(r.Svc, ask), 100)
		}
		r.Want("reads", reads, 1)
		id := r.Send(byBrowser(vtest.Ana, presenting(token))).View.ID
		r.Want("a resend of its own", limit(r.Svc, verification.Request{Caller: vtest.Browser, Resend: id}), 1000)
		strangers := r.Send(byBrowser("cleo@example.com")).View.ID
		r.Want("a stranger's resend of its own", limit(r.Svc, verification.Request{Caller: vtest.Browser, Resend: strangers}), 100)
		r.Cancel(strangers)
		a := r.Send(verification.Request{Caller: vtest.Browser, Resend: strangers})
		next, _, _, err := r.Store.Verification(r.Context(), a.View.ID)
		vtest.Equal(r, "the code that a stranger is sent once that has ended: another one", a.View.ID != strangers, true)
		vtest.Equal(r, "the code that a stranger is sent once that has ended: limit", a.Quota.Rules[0].Limit, 100)
		vtest.Equal(r, "the code that a stranger is sent once that has ended: class", next.Class, store.StrangerClass)
		r.NoError(err)
		look, err := r.Svc.Get(r.Context(), vtest.Browser, id)
		vtest.Equal(r, "a look: Limit", look.Quota.Rules[0].Limit, 1000)
		r.NoError(err)
		r.Cancel(id)
		r.Want("by the ID of an ended code", limit(r.Svc, verification.Request{Caller: vtest.Browser, Resend: id}), 100)
		id = r.SendTo(vtest.Ana).View.ID
		r.WantApproved(id, r.LastCode())
		r.Want("a secret key's token", r.Check(id, "000000").KnownToken, "")

		r.FailStore(sqlitetest.Down, "VerificationsByID")
		r.Want("the database is away", limit(r.Svc, byBrowser(vtest.Ana, presenting(token))), 100)
		r.EndStoreFaults()
		for _, c := range []struct {
			keys string
			want int
		}{{"k2:" + vtest.NewKey + ",k1:" + vtest.OldKey, 1000}, {"k2:" + vtest.NewKey, 100}} {
			ring := r.Settings.Vault.Ring
			r.Settings.Vault.Ring = vtest.KeyRing(t, c.keys)
			r.Want(c.keys[:2], limit(r.Replica(r.MailServer), byBrowser(vtest.Ana, presenting(token))), c.want)
			r.Settings.Vault.Ring = ring
		}
		r.WantInvalid(r.SendError(byBrowser(vtest.Ana, presenting("", "", "", "", "", ""))), "known", "too_many")
		r.WantInvalid(r.SendError(vtest.AskFor(vtest.Ana, presenting(token))), "known", "not_allowed")

		r.Sleep(verification.KnownTokenLife - time.Second)
		r.Want("a second before its end", limit(r.Svc, byBrowser(vtest.Ana, presenting(token))), 1000)
		r.Sleep(time.Second)
		r.Want("at its end", limit(r.Svc, byBrowser(vtest.Ana, presenting(token))), 100)
		token = knownBrowser(r)
		r.NoError(r.Svc.Administration.EraseRecipient(r.Context(), r.AnaTarget(), vtest.AuditEntry("erase")))
		r.Want("erased", limit(r.Svc, byBrowser(vtest.Ana, presenting(token))), 100)
	})
}

// If hardly any codes of an app's strangers are entered, strangers need a human check, but only
// before the first send of a verification. A known browser needs none, even if half of the places
// that all recipients share are taken, since the app itself has no human check.
func TestWhoIsAskedWhileFewCodesAreEntered(t *testing.T) {
	all := vtest.WithRules(quota.Rule{Name: "all", Scope: quota.App, Limit: 20, Window: time.Hour})
	vtest.InBubbleWith(t, all, func(r *vtest.Rig) {
		token := knownBrowser(r)
		for n := range 6 {
			r.SendTo(vtest.NthAddress(n))
		}
		r.Svc.AskStrangers([]string{"shop"})
		a, err := r.Svc.Send(r.Context(), byBrowser("bob@example.com"))
		r.NoError(err)
		vtest.Equal(r, "a stranger is admitted", a.Admitted, false)
		vtest.Equal(r, "asked", a.HumanCheck != nil, true)
		solved := byBrowser("bob@example.com")
		solved.HumanCheck = vtest.Solve(r, a.HumanCheck)
		again := byBrowser("bob@example.com")
		again.Resend = r.Send(solved).View.ID
		a, err = r.Svc.Send(r.Context(), again)
		r.NoError(err)
		vtest.Equal(r, "the same code again is admitted", a.Admitted, true)
		vtest.Equal(r, "asked", a.HumanCheck != nil, false)
		for n := range 6 {
			r.SendTo(vtest.NthAddress(10 + n))
		}
		a, err = r.Svc.Send(r.Context(), byBrowser(vtest.Ana, presenting(token)))
		r.NoError(err)
		vtest.Equal(r, "a known browser is admitted", a.Admitted, true)
		vtest.Equal(r, "asked", a.HumanCheck != nil, false)
	})
}
