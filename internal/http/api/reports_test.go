package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/api"
	"sendcode/internal/http/authhooks"
	"sendcode/internal/run/jobs"
	"sendcode/internal/store"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

const gym = "sk_gym_0123456789abcdef" // of another app

var reporters = api.Keys{keyOf("shop", secret), keyOf("shop", public), keyOf("gym", gym)}

// The rows cover each answer of the two /outcome routes.
func TestReportedOutcomes(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) { vtest.SubscribeAll(s); vtest.ServeCountries("DE")(s) }, func(r *vtest.Rig) {
		e := r.Svc.Routes(reporters, api.Services{})
		type answer struct {
			problem
			accepted string // the whole body, if the report was accepted
		}
		post := func(key, path, body string) answer {
			w := client{r.T, e, "192.0.2.1", key}.do(http.MethodPost, "/v1/verifications"+path, body)
			a := answer{problem: problemOf(w)}
			if w.Code == http.StatusOK {
				a.accepted = strings.TrimSpace(w.Body.String())
			}
			return a
		}
		ours := r.Send(vtest.TextTo(vtest.OtherMobile)).View.ID
		ask := vtest.TextTo(vtest.Mobile)
		ask.Code = "739154"
		id := r.Send(ask).View.ID
		byID, byNumber := "/"+id+"/outcome", `{"channel":"sms","to":"`+vtest.Mobile+`","outcome":"%s"}`
		ok := func(outcome string) answer {
			return answer{problem{status: 200}, fmt.Sprintf(`{"id":"%s","outcome":"%s"}`, id, outcome)}
		}
		refused := func(status int, slug string) answer { return answer{problem: problem{status: status, slug: slug}} }
		invalid := func(field, reason string) answer { return answer{problem: invalidField(field, reason)} }
		for _, c := range []struct {
			key, path, body string
			want            answer
		}{
			{public, byID, `{"outcome":"approved"}`, refused(403, "forbidden")},
			{public, "/outcome", fmt.Sprintf(byNumber, "approved"), refused(403, "forbidden")},
			{gym, byID, `{"outcome":"approved"}`, refused(404, "not-found")},
			{gym, "/outcome", fmt.Sprintf(byNumber, "approved"), refused(404, "not-found")},
			{secret, "/none/outcome", `{"outcome":"approved"}`, refused(404, "not-found")},
			{secret, "/" + ours + "/outcome", `{"outcome":"approved"}`, refused(409, "checked-here")},
			{secret, byID, `{"outcome":"due"}`, invalid("outcome", "invalid")},
			{secret, byID, `{}`, invalid("outcome", "invalid")},
			{secret, "/outcome", `{"channel":"sms","to":"1","outcome":"failed"}`, invalid("to", "no_country_code")},
			{secret, "/outcome", fmt.Sprintf(byNumber, "failed"), ok("failed")},
			{secret, byID, `{"outcome":"failed"}`, ok("failed")},
			{secret, byID, `{"outcome":"approved"}`, ok("approved")},
			{secret, "/outcome", fmt.Sprintf(byNumber, "approved"), ok("approved")},
			{secret, byID, `{"outcome":"failed"}`, ok("approved")},
			{secret, "/" + id + "/check", `{"code":"739154"}`, refused(409, "caller-checks")},
		} {
			vtest.Equal(r, c.path+" "+c.body, post(c.key, c.path, c.body), c.want)
		}
		r.Want("the state", r.Get(id).State, "approved")
		r.WantEvents("send.sent", "send.sent", "verification.approved")
		who, err := r.Svc.Administration.ParseTarget("", "sms", vtest.Mobile, "", "ticket 7")
		r.NoError(err)
		r.NoError(r.Svc.Administration.EraseRecipient(r.Context(), who, vtest.AuditEntry("erase")))
		vtest.Equal(r, "once erased", post(secret, byID, `{"outcome":"approved"}`), refused(404, "not-found"))
	})
}

// Behind Supabase's hook, 200 numbers of one prefix get codes that are never entered, beside 100
// people who enter their codes. If the hook has `reports: true` and the app reports outcomes, the
// watch pauses only that prefix. Without `reports: true`, it pauses none, and with the setting but
// without reports it pauses all prefixes, as docs/supabase.md says.
func TestWatchBehindSupabase(t *testing.T) {
	for name, c := range map[string]struct {
		appReports, reports bool
		want                string // the paused prefixes
	}{
		"reports: true, reported":   {true, true, "[+49151]"},
		"reported alone":            {false, true, "[]"},
		"neither":                   {false, false, "[]"},
		"reports: true, unreported": {true, false, "[+49151 +49160 +49170]"},
	} {
		settings := func(s *vtest.Settings) {
			vtest.ServeCountries("DE")(s)
			s.Watch = store.PrefixWatch{MinSends: 20, MinApprovedPercent: 10, TTL: 10 * time.Minute}
		}
		vtest.InBubbleWith(t, vtest.MinuteTick(settings), func(r *vtest.Rig) {
			s := newSupabase(r, authhooks.SupabaseSMS, func(h *authhooks.Hook) { h.AppReports = c.appReports })
			reporter := client{r.T, r.Svc.Routes(reporters, api.Services{}), "192.0.2.1", secret}
			text := func(n int, number string) string {
				return s.call(again(strings.NewReplacer("4915123456789", number[1:],
					"203.0.113.7", fmt.Sprintf("%d.%d.1.1", 11+n%100, n/100)).Replace(s.body("sms")), n))
			}
			honest := func(n int) string { return fmt.Sprintf("+49%d%08d", 160+10*(n%2), 20_000_000+n) }
			for n := range 100 {
				r.Want("honest", text(1000+n, honest(n)), "200 ")
				for i := range 2 {
					r.Want("pumped", text(2000+2*n+i, vtest.PumpedNumber(2*n+i)), "200 ")
				}
				if c.reports {
					w := reporter.do(http.MethodPost, "/v1/verifications/outcome",
						fmt.Sprintf(`{"channel":"sms","to":%q,"outcome":"approved"}`, honest(n)))
					r.Want("reported", w.Code, http.StatusOK)
				}
				r.Sleep(5 * time.Second)
			}
			r.Sleep(10*time.Minute + 2*jobs.PrefixWatchEvery)
			pauses, _, err := r.Store.PrefixPauses(r.Context(), store.PrefixPauseFilter{Limit: 9})
			r.NoError(err)
			got := []string{}
			for _, p := range pauses {
				got = append(got, p.Prefix)
				vtest.Equal(r, name+": class of "+p.Prefix, p.Class, store.StrangerClass)
				vtest.Equal(r, name+": approved of "+p.Prefix, p.Approved, 0)
			}
			slices.Sort(got)
			r.Want(name, got, c.want)
			want := "200 "
			if strings.Contains(c.want, "+49151") {
				want = "503 "
			}
			r.Want(name+": the next of the prefix", text(5000, vtest.PumpedNumber(500))[:4], want)
		})
	}
}
