package verification

import (
	"errors"
	"fmt"
	"testing"

	"sendcode/internal/store"
)

// Who is turned away with a 422, since codes are not sent there, is found in the log: by the recipient and by the reason.
func TestWhatIsTurnedAwayHasARow(t *testing.T) {
	inBubbleWith(t, func(s *Settings) {
		s.Blocks.Disposable = map[string]bool{"short.example": true}
		s.Numbers = Numbers{Countries: map[string]bool{"DE": true, "GB": true}, RefuseVoIP: true}
	}, func(r *rig) {
		turnedAway := func(ask Ask, reason string) {
			t.Helper()
			var bad *InvalidError
			if _, err := r.svc.Send(r.Context(), ask); !errors.As(err, &bad) || bad.Reason != reason {
				t.Fatalf("%v", err)
			}
		}
		us, voip := textTo("+12025550123"), textTo("+445612345678")
		short := askFor("ana.maria@short.example")
		short.Caller, short.Reference = browser, "free text"
		for range 3 {
			turnedAway(us, "country_not_served")
			turnedAway(voip, "voip")
			turnedAway(short, "disposable")
		}
		waited(minute)
		for reason, ask := range map[string]Ask{"country_not_served": us, "voip": voip, "disposable": short} {
			h, err := r.svc.Hash(ask.Channel, ask.To)
			r.noError(err)
			rows, err := r.log.Sends(r.Context(), store.Filter{Recipient: &h, BlockedBy: reason, Limit: 10})
			r.noError(err)
			if len(rows) != 1 || rows[0].Status != store.Refused || rows[0].Count != 3 || rows[0].RetryAfter != 0 || rows[0].Reference != "" || rows[0].To == "" {
				t.Errorf("%s: %+v", reason, rows)
			}
		}
	})
}

// An attacker who tries numbers of a country that is not served writes no more rows than one whom a rule refuses.
func TestRowsOfWhatIsTurnedAwayAreBounded(t *testing.T) {
	inBubbleWith(t, func(s *Settings) { s.Blocks.Disposable = map[string]bool{"short.example": true} }, func(r *rig) {
		for i := range 1000 {
			ask := askFor(fmt.Sprintf("a%d@short.example", i))
			ask.Caller = browser
			if _, err := r.svc.Send(r.Context(), ask); err == nil {
				t.Fatal("let in")
			}
		}
		waited(minute)
		rows, err := r.log.Sends(r.Context(), store.Filter{BlockedBy: "disposable", Limit: 200})
		r.noError(err)
		requests := 0
		for _, row := range rows {
			requests += row.Count
		}
		if len(rows) != firstOwn+1 || requests != 1000 {
			t.Errorf("%d rows for %d requests", len(rows), requests)
		}
	})
}

// A check that is refused since too many failed leaves a row as well: of a recipient's code one, whatever the number of tries.
func TestARefusedCheckHasARow(t *testing.T) {
	inBubbleWith(t, seldom(spelled), func(r *rig) {
		var ids []string
		for range 5 {
			ids = append(ids, r.send(byBrowser(ana)).View.ID)
		}
		last := ids[4]
		r.guess(browser, 20, ids[:4]...)
		for range 3 {
			var many *TooManyChecksError
			if _, err := r.svc.Check(r.Context(), browser, last, r.lastCode()); !errors.As(err, &many) {
				t.Fatalf("%v", err)
			}
		}
		waited(minute)
		h, err := r.svc.Hash("email", ana)
		r.noError(err)
		rows, err := r.log.Sends(r.Context(), store.Filter{Recipient: &h, BlockedBy: ChecksRule, Limit: 10})
		r.noError(err)
		if len(rows) != 1 || rows[0].Count != 3 || rows[0].RetryAfter <= 0 || rows[0].VerificationID != last || rows[0].To != anaAs {
			t.Errorf("%+v", rows)
		}
	})
}
