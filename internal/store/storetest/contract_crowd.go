package storetest

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// Of recipient 1 three sends count, of 2 two; all else stands apart.
func heavyRecipients(t *testing.T, f *Fixture) {
	for _, n := range []int{1, 2, 1, 2, 1} {
		f.Admit(t, f.Intent(n))
		f.Pass(time.Minute)
	}
	f.Ended(t, f.Intent(2), store.Outcome{Status: store.Failed, Refund: true})
	OK(t, f.Refused(t.Context(), []store.Send{f.Refusal(2, nil)}))
	f.Admit(t, f.Intent(2, func(in *store.Intent) { in.Send.App = "desk" }))
	f.Admit(t, f.Intent(2, func(in *store.Intent) { in.Send.Channel = recipient.SMS }))
	f.Admit(t, f.Intent(2, func(in *store.Intent) { in.Send.Purpose, in.Purposes = "gift", []string{"gift"} }))

	ask := func(q store.HeavyQuery, all int, want ...store.HeavyRecipient) {
		t.Helper()
		got, n := Must2(f.HeavyRecipients(t.Context(), q))(t)
		Equal(t, "in all", n, all)
		Equal(t, "crowds", got, want)
	}
	now := f.Now
	crowd := func(n byte, sends int, ago time.Duration) store.HeavyRecipient {
		in := f.Intent(int(n))
		return store.HeavyRecipient{App: "shop", Channel: recipient.Email, Recipient: in.Send.Recipient, To: in.Send.To, Purpose: "login",
			Sends: sends, Newest: now.Add(-ago)}
	}
	login := []string{"signup", "login"}
	ask(store.HeavyQuery{Purposes: login, Within: time.Hour, AtLeast: 2, Limit: 10}, 2, crowd(1, 3, time.Minute), crowd(2, 2, 2*time.Minute))
	ask(store.HeavyQuery{Purposes: login, Within: time.Hour, AtLeast: 2, Limit: 1}, 2, crowd(1, 3, time.Minute))
	ask(store.HeavyQuery{Purposes: login, Within: time.Hour, AtLeast: 3, Limit: 10}, 1, crowd(1, 3, time.Minute))
	// 5 min ago is out
	ask(store.HeavyQuery{Purposes: login, Within: 5 * time.Minute, AtLeast: 2, Limit: 10}, 2, crowd(1, 2, time.Minute),
		crowd(2, 2, 2*time.Minute))
	ask(store.HeavyQuery{Purposes: login, Within: time.Hour, AtLeast: 4, Limit: 10}, 0)
	ask(store.HeavyQuery{Purposes: []string{"signup"}, Within: time.Hour, AtLeast: 1, Limit: 10}, 0)
	for _, bad := range []store.HeavyQuery{
		{Within: time.Hour, AtLeast: 1, Limit: 1}, {Purposes: login, AtLeast: 1, Limit: 0}, {Purposes: login, AtLeast: 0, Limit: 1},
		{Purposes: login, AtLeast: 1, Limit: store.MaxPage + 1}, {Purposes: []string{"a\x00"}, AtLeast: 1, Limit: 1},
	} {
		if _, _, err := f.HeavyRecipients(t.Context(), bad); err == nil {
			t.Errorf("no error for %+v", bad)
		}
	}
}
