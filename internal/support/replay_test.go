package support_test

import (
	"fmt"
	"testing"
	"time"

	"sendcode/internal/fault"
	"sendcode/internal/store/sqlite/sqlitetest"
	vtest "sendcode/internal/verification/verificationtest"
	"sendcode/quota"
)

func perRecipient(name string, limit int, window time.Duration) quota.Rule {
	return quota.Rule{Name: name, Scope: quota.Recipient, Limit: limit, Window: window}
}

func TestReplayTellsWhatStricterRulesWouldHaveRefused(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		p := r.SendFive()
		r.WantLine("in force", "[default login] default", p.Purposes, p.Name)
		const day = 24 * time.Hour
		for _, c := range []struct {
			rules  []quota.Rule
			period time.Duration
			want   string // sends, refused, recipients, affected, by rule
		}{
			{p.Rules, day, "{5 0 2 0 map[]}"},
			{[]quota.Rule{perRecipient("hour", 3, time.Hour)}, day, "{5 1 2 1 map[hour:1]}"},
			// What was refused takes no place: of 0, 60, 120 and 180 s the second and the fourth.
			{[]quota.Rule{perRecipient("short", 1, 90*time.Second)}, day, "{5 2 2 1 map[short:2]}"},
			{[]quota.Rule{perRecipient("short", 1, 61*time.Second), perRecipient("hour", 2, time.Hour)}, day,
				"{5 2 2 1 map[hour:1 short:2]}"},
			// What came before the period counts and is not counted.
			{[]quota.Rule{perRecipient("hour", 1, time.Hour)}, 150 * time.Second, "{2 2 1 1 map[hour:2]}"},
			{[]quota.Rule{perRecipient("hour", 1, time.Hour)}, 3 * time.Minute, "{2 2 1 1 map[hour:2]}"},
		} {
			got, err := r.Svc.Desk.ReplaySends(r.Context(), p, c.rules, c.period)
			r.NoError(err)
			r.Want(fmt.Sprint(c.rules, c.period), got, c.want)
		}
	})
}

// A purpose of another policy has buckets of its own.
func TestReplayLooksAtOnePolicy(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		gift := s.Purposes["default"]
		gift.Name, gift.Policy.Name, gift.Shares = "gift", "gift", []string{"gift"}
		s.Purposes["gift"] = gift
	}, func(r *vtest.Rig) {
		p := r.SendFive()
		r.SendTo(vtest.Ana, vtest.For("gift"))
		got, err := r.Svc.Desk.ReplaySends(r.Context(), p, []quota.Rule{perRecipient("hour", 4, time.Hour)}, time.Hour)
		r.NoError(err)
		r.WantLine("sends and refused", "5 0", got.Sends, got.Refused)
	})
}

func TestReplayWithoutTheDatabase(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		p := r.Svc.Desk.Policies()[0]
		r.FailStore(sqlitetest.Down, "CountedSends", "HeavyRecipients")
		r.WantError(vtest.Err(r.Svc.Desk.ReplaySends(r.Context(), p, nil, time.Hour)), fault.Unavailable)
		_, _, err := r.Svc.Desk.RecipientsAtLimit(r.Context(), p, p.Rules[0], 10)
		r.WantError(err, fault.Unavailable)
	})
}
