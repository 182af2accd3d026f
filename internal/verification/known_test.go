package verification_test

import (
	"encoding/base64"
	"net/netip"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

func presenting(tokens ...string) vtest.Option {
	return func(a *verification.Request) { a.Known = tokens }
}

// knownBrowser enters Ana's code in a browser and returns the browser's token.
func knownBrowser(r *vtest.Rig, options ...vtest.Option) string {
	r.Helper()
	ask := byBrowser(vtest.Ana, options...)
	id := r.Send(ask).View.ID
	checked, _, _ := r.Try(ask.Caller, id, r.LastCode())
	r.WantChecked("a browser", checked, "approved true")
	return checked.Known
}

// A token is good for the app and address of its verification, for 90 days, until that is erased,
// and while its key is in the ring. In doubt the browser is unknown. The database is asked for the
// verification of a token that fits, and for nothing else.
func TestKnownBrowsers(t *testing.T) {
	roomy := vtest.WithReserve(map[string]int{"hour": 900},
		vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 1000, Window: time.Hour}))
	vtest.InBubbleWith(t, func(s *vtest.Settings) { roomy(s); s.Tick, s.Lease = 24*time.Hour, 24*time.Hour }, func(r *vtest.Rig) {
		token := knownBrowser(r)
		limit := func(s *vtest.Service, ask verification.Request) int {
			t.Helper()
			a, err := s.Send(r.Context(), ask)
			r.NoError(err)
			r.Sleep(0) // until the mail is out: the next one is the last
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
		r.Want("a stranger's resend of its own",
			limit(r.Svc, verification.Request{Caller: vtest.Browser, Resend: strangers}), 100)
		r.Cancel(strangers)
		a := r.Send(verification.Request{Caller: vtest.Browser, Resend: strangers})
		next, _, _, err := r.Store.Verification(r.Context(), a.View.ID)
		r.WantLine("the code that a stranger is sent once that has ended: another one, limit, class",
			vtest.Line(true, 100, store.UnknownBrowser, "<nil>"), a.View.ID != strangers, a.Quota.Rules[0].Limit,
			next.Class, err)
		look, err := r.Svc.Get(r.Context(), vtest.Browser, id)
		r.WantLine("a look", "1000 <nil>", look.Quota.Rules[0].Limit, err)
		id = r.SendTo(vtest.Ana).View.ID
		r.WantApproved(id, r.LastCode())
		r.Want("a secret key's token", r.Check(id, "000000").Known, "")

		r.FailStore(sqlitetest.Down, "VerificationsByID")
		r.Want("the database is away", limit(r.Svc, byBrowser(vtest.Ana, presenting(token))), 100)
		r.MendStore()
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
		r.NoError(r.Svc.Desk.EraseRecipient(r.Context(), r.Person(), vtest.AuditEntry("erase")))
		r.Want("erased", limit(r.Svc, byBrowser(vtest.Ana, presenting(token))), 100)
	})
}

// Strangers from 50 networks use up every limit and every try of a recipient, for a day and two
// hours, with the default policy and its reserve. A back end and a known browser each send within
// 60 s and get in, also while the limiter is away, and no window of the database has more than 1,
// 5, 10.
func TestStrangersStopNobody(t *testing.T) {
	builtIn := vtest.WithReserve(map[string]int{"hour": 1, "day": 2}, func(*vtest.Settings) {})
	for _, guessing := range []bool{false, true} {
		for _, known := range []bool{false, true} {
			vtest.InBubbleWith(t, vtest.MinuteTick(builtIn), func(r *vtest.Rig) {
				honest := vtest.AskFor(vtest.Ana)
				if known {
					honest = byBrowser(vtest.Ana, presenting(knownBrowser(r)))
				}
				getsIn := func() {
					t.Helper()
					ask := honest
					a, err := r.Svc.Send(r.Context(), ask)
					r.NoError(err)
					if wait := a.Quota.RetryAfter(); !a.Admitted {
						if wait > time.Minute {
							t.Fatalf("guessing %v, known %v: %v until %s", guessing, known, wait, a.Quota.Violated())
						}
						r.Sleep(wait)
						a = r.Send(ask)
					}
					r.Sleep(time.Second)
					checked, _, _ := r.Try(ask.Caller, a.View.ID, r.LastCode())
					r.WantChecked("the honest caller", checked, "approved true")
				}
				sent := 0
				for n := range 26 * 60 {
					stranger := vtest.Browser
					stranger.IP = netip.AddrFrom4([4]byte{10, byte(n % 50), 0, 1})
					if a, err := r.Svc.Send(r.Context(), vtest.AskFor(vtest.Ana, vtest.By(stranger))); err == nil &&
						a.Admitted {
						if sent++; guessing {
							r.Guess(stranger, 5, a.View.ID)
						}
					}
					r.Sleep(time.Minute)
					if n == 4*60 || n == 20*60 {
						if n == 20*60 {
							r.LoseLimiter()
						}
						getsIn()
					}
				}
				if want := map[bool]int{false: 8, true: 4}[guessing]; sent < want {
					t.Errorf("strangers sent %d", sent)
				}
				r.Sleep(time.Minute) // the outbox writes the last one
				all, err := r.Store.Sends(r.Context(), store.Filter{Status: store.Sent, Limit: store.MaxPageRows})
				r.NoError(err)
				for i, s := range all { // the newest first
					for _, rule := range r.Settings.Purposes["default"].Policy.Rules {
						if i+rule.Limit < len(all) && s.LoggedAt.Sub(all[i+rule.Limit].LoggedAt) < rule.Window {
							t.Errorf("more than %d within %v", rule.Limit, rule.Window)
						}
					}
				}
				r.Want("sends in the database", len(all) > sent, true)
			})
		}
	}
}
