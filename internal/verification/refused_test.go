package verification_test

import (
	"errors"
	"testing"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/refusals"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

// One address over its limit asks for 20,000 codes for as many strangers: that does not fill the log, every request is counted, and
// support finds the first of them. TestRefusalsAreBoundedAndCounted bounds the memory.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	const strangers = 20_000
	office := vtest.AlsoRules(quota.Rule{Name: "office", Scope: quota.IP, Limit: 1, Window: time.Hour})
	vtest.InBubbleWith(t, office, func(r *vtest.Rig) {
		ask := verification.Ask{Caller: vtest.Browser, Channel: "email", To: vtest.Ana, Languages: "de-CH, de;q=0.9", Reference: "not needed"}
		r.Send(ask)
		for i := range strangers {
			ask.To = vtest.NthAddress(i)
			r.Refuse(ask)
			if i%1000 == 0 {
				r.Sleep(time.Second) // batches are written meanwhile
			}
		}
		r.Sleep(3 * time.Second)
		rows := r.Rows()[1:]
		own, shared, requests := storetest.SumRefusals(rows)
		if len(rows) > 190 || own != refusals.FirstOwn || shared != 1 || requests != strangers {
			t.Errorf("%d rows of their own and %d shared stand for %d requests", own, shared, requests)
		}
		for i := range refusals.FirstOwn {
			if found := r.RowsOf(vtest.NthAddress(i)); len(found) != 1 || found[0].BlockedBy != "office" || found[0].Count != 1 {
				t.Fatalf("of stranger %d support finds %+v", i, found)
			}
		}
		if found := r.RowsOf(vtest.NthAddress(refusals.FirstOwn)); len(found) != 0 {
			t.Errorf("of a later stranger there is %+v", found)
		}
		for _, row := range rows {
			if row.Reference != "" || row.Locale != "" && row.Locale != "de-CH" {
				t.Fatalf("a refused row has locale %q and reference %q", row.Locale, row.Reference)
			}
			if row.Recipients > 0 && (row.Count != strangers-refusals.FirstOwn || row.Recipients < strangers*9/10 ||
				row.Recipients > strangers*11/10) {
				t.Errorf("the shared row stands for %d requests and %d recipients", row.Count, row.Recipients)
			}
		}
	})
}

// A request that is refused with a 422, since codes are not sent there, has a row: by the recipient and by the reason.
func TestWhatIsTurnedAwayHasARow(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		s.Blocks.Disposable = map[string]bool{"short.example": true}
		s.Numbers = policy.Numbers{Countries: map[string]bool{"DE": true, "GB": true}, RefuseVoIP: true}
	}, func(r *vtest.Rig) {
		us, voip := vtest.TextTo("+12025550123"), vtest.TextTo("+445612345678")
		short := vtest.AskFor("ana.maria@short.example")
		short.Caller, short.Reference = vtest.Browser, "free text"
		for range 3 {
			r.WantInvalid(r.SendError(us), "to", "country_not_served")
			r.WantInvalid(r.SendError(voip), "to", "voip")
			r.WantInvalid(r.SendError(short), "to", "disposable")
		}
		r.Sleep(time.Minute)
		for reason, ask := range map[string]verification.Ask{"country_not_served": us, "voip": voip, "disposable": short} {
			h, err := r.Svc.Desk.Hash(ask.Channel, ask.To)
			r.NoError(err)
			rows, err := r.Store.Sends(r.Context(), store.Filter{Recipient: &h, BlockedBy: reason, Limit: 10})
			r.NoError(err)
			if len(rows) != 1 || rows[0].Status != store.Refused || rows[0].Count != 3 || rows[0].RetryAfter != 0 || rows[0].Reference != "" ||
				rows[0].To == "" {
				t.Errorf("%s: %+v", reason, rows)
			}
		}
	})
}

// A check that is refused since too many failed leaves a row as well: of a recipient's code one, whatever the number of tries.
func TestARefusedCheckHasARow(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(spelled), func(r *vtest.Rig) {
		var ids []string
		for range 5 {
			ids = append(ids, r.Send(byBrowser(vtest.Ana)).View.ID)
		}
		last := ids[4]
		r.Guess(vtest.Browser, 20, ids[:4]...)
		for range 3 {
			var many *verification.TooManyChecksError
			if _, err := r.Svc.Check(r.Context(), vtest.Browser, last, r.LastCode()); !errors.As(err, &many) {
				t.Fatalf("%v", err)
			}
		}
		r.Sleep(time.Minute)
		h, err := r.Svc.Desk.Hash("email", vtest.Ana)
		r.NoError(err)
		rows, err := r.Store.Sends(r.Context(), store.Filter{Recipient: &h, BlockedBy: verification.ChecksRule, Limit: 10})
		r.NoError(err)
		if len(rows) != 1 || rows[0].Count != 3 || rows[0].RetryAfter <= 0 || rows[0].VerificationID != last || rows[0].To != vtest.AnaMasked {
			t.Errorf("%+v", rows)
		}
	})
}
