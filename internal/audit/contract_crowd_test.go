package audit

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
)

// Of recipient 1 three sends count, of 2 two; all else stands apart.
func crowds(t *testing.T, f *fixture) {
	for _, n := range []int{1, 2, 1, 2, 1} {
		f.admit(t, f.intent(n))
		f.pass(time.Minute)
	}
	gone := f.admit(t, f.intent(2))
	f.finish(t, Outcome{Held: Held{gone.Send.ID, 1}, Status: Failed, Refund: true}, true)
	ok(t, f.Refused(t.Context(), []Send{f.refusal(2, nil)}))
	f.admit(t, f.intent(2, func(in *Intent) { in.Send.App = "desk" }))
	f.admit(t, f.intent(2, func(in *Intent) { in.Send.Channel = recipient.SMS }))
	f.admit(t, f.intent(2, func(in *Intent) { in.Send.Purpose, in.Purposes = "gift", []string{"gift"} }))

	ask := func(q CrowdQuery, all int, want ...Crowd) {
		t.Helper()
		got, n, err := f.Crowds(t.Context(), q)
		ok(t, err)
		equal(t, "in all", n, all)
		equal(t, "crowds", got, want)
	}
	now := f.now
	crowd := func(n byte, sends int, ago time.Duration) Crowd {
		in := f.intent(int(n))
		return Crowd{App: "shop", Channel: recipient.Email, Recipient: in.Send.Recipient, To: in.Send.To, Purpose: "login", Sends: sends, Newest: now.Add(-ago)}
	}
	login := []string{"signup", "login"}
	ask(CrowdQuery{Purposes: login, Within: time.Hour, AtLeast: 2, Limit: 10}, 2, crowd(1, 3, time.Minute), crowd(2, 2, 2*time.Minute))
	ask(CrowdQuery{Purposes: login, Within: time.Hour, AtLeast: 2, Limit: 1}, 2, crowd(1, 3, time.Minute))
	ask(CrowdQuery{Purposes: login, Within: time.Hour, AtLeast: 3, Limit: 10}, 1, crowd(1, 3, time.Minute))
	ask(CrowdQuery{Purposes: login, Within: 5 * time.Minute, AtLeast: 2, Limit: 10}, 2, crowd(1, 2, time.Minute), crowd(2, 2, 2*time.Minute)) // 5 min ago is out
	ask(CrowdQuery{Purposes: login, Within: time.Hour, AtLeast: 4, Limit: 10}, 0)
	ask(CrowdQuery{Purposes: []string{"signup"}, Within: time.Hour, AtLeast: 1, Limit: 10}, 0)
	for _, bad := range []CrowdQuery{
		{Within: time.Hour, AtLeast: 1, Limit: 1}, {Purposes: login, AtLeast: 1, Limit: 0}, {Purposes: login, AtLeast: 0, Limit: 1},
		{Purposes: login, AtLeast: 1, Limit: maxPage + 1}, {Purposes: []string{"a\x00"}, AtLeast: 1, Limit: 1},
	} {
		if _, _, err := f.Crowds(t.Context(), bad); err == nil {
			t.Errorf("no error for %+v", bad)
		}
	}
}
