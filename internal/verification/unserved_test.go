package verification_test

import (
	"errors"
	"fmt"
	"sendcode/internal/policy"
	"sendcode/internal/refusals"
	"sendcode/internal/verification"
	"sendcode/internal/verification/rig"
	"testing"
	"time"

	"sendcode/internal/store"
)

// Who is turned away with a 422, since codes are not sent there, is found in the log: by the recipient and by the reason.
func TestWhatIsTurnedAwayHasARow(t *testing.T) {
	rig.InBubbleWith(t, func(s *rig.Settings) {
		s.Blocks.Disposable = map[string]bool{"short.example": true}
		s.Numbers = policy.Numbers{Countries: map[string]bool{"DE": true, "GB": true}, RefuseVoIP: true}
	}, func(r *rig.Rig) {
		turnedAway := func(ask verification.Ask, reason string) {
			t.Helper()
			var bad *verification.InvalidError
			if _, err := r.Svc.Send(r.Context(), ask); !errors.As(err, &bad) || bad.Reason != reason {
				t.Fatalf("%v", err)
			}
		}
		us, voip := rig.TextTo("+12025550123"), rig.TextTo("+445612345678")
		short := rig.AskFor("ana.maria@short.example")
		short.Caller, short.Reference = rig.Browser, "free text"
		for range 3 {
			turnedAway(us, "country_not_served")
			turnedAway(voip, "voip")
			turnedAway(short, "disposable")
		}
		rig.Waited(time.Minute)
		for reason, ask := range map[string]verification.Ask{"country_not_served": us, "voip": voip, "disposable": short} {
			h, err := r.Svc.Desk.Hash(ask.Channel, ask.To)
			r.NoError(err)
			rows, err := r.Store.Sends(r.Context(), store.Filter{Recipient: &h, BlockedBy: reason, Limit: 10})
			r.NoError(err)
			if len(rows) != 1 || rows[0].Status != store.Refused || rows[0].Count != 3 || rows[0].RetryAfter != 0 || rows[0].Reference != "" || rows[0].To == "" {
				t.Errorf("%s: %+v", reason, rows)
			}
		}
	})
}

// An attacker who tries numbers of a country that is not served writes no more rows than one whom a rule refuses.
func TestRowsOfWhatIsTurnedAwayAreBounded(t *testing.T) {
	rig.InBubbleWith(t, func(s *rig.Settings) { s.Blocks.Disposable = map[string]bool{"short.example": true} }, func(r *rig.Rig) {
		for i := range 1000 {
			ask := rig.AskFor(fmt.Sprintf("a%d@short.example", i))
			ask.Caller = rig.Browser
			if _, err := r.Svc.Send(r.Context(), ask); err == nil {
				t.Fatal("let in")
			}
		}
		rig.Waited(time.Minute)
		rows, err := r.Store.Sends(r.Context(), store.Filter{BlockedBy: "disposable", Limit: 200})
		r.NoError(err)
		requests := 0
		for _, row := range rows {
			requests += row.Count
		}
		if len(rows) != refusals.FirstOwn+1 || requests != 1000 {
			t.Errorf("%d rows for %d requests", len(rows), requests)
		}
	})
}

// A check that is refused since too many failed leaves a row as well: of a recipient's code one, whatever the number of tries.
func TestARefusedCheckHasARow(t *testing.T) {
	rig.InBubbleWith(t, rig.Seldom(spelled), func(r *rig.Rig) {
		var ids []string
		for range 5 {
			ids = append(ids, r.Send(byBrowser(rig.Ana)).View.ID)
		}
		last := ids[4]
		r.Guess(rig.Browser, 20, ids[:4]...)
		for range 3 {
			var many *verification.TooManyChecksError
			if _, err := r.Svc.Check(r.Context(), rig.Browser, last, r.LastCode()); !errors.As(err, &many) {
				t.Fatalf("%v", err)
			}
		}
		rig.Waited(time.Minute)
		h, err := r.Svc.Desk.Hash("email", rig.Ana)
		r.NoError(err)
		rows, err := r.Store.Sends(r.Context(), store.Filter{Recipient: &h, BlockedBy: verification.ChecksRule, Limit: 10})
		r.NoError(err)
		if len(rows) != 1 || rows[0].Count != 3 || rows[0].RetryAfter <= 0 || rows[0].VerificationID != last || rows[0].To != rig.AnaAs {
			t.Errorf("%+v", rows)
		}
	})
}
