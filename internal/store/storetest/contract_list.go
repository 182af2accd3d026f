package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

func filters(t *testing.T, f *Fixture) {
	var rows []store.Send // oldest first
	for n, change := range []func(*store.Intent){
		func(in *store.Intent) { in.Send.App = "other" },
		func(in *store.Intent) {
			in.Send.Channel, in.Send.To, in.Send.Country, in.Send.Prefix = recipient.SMS, "+49 151•••021", "DE", "+49151"
		},
		func(in *store.Intent) { in.Send.Purpose = "signup" },
		func(in *store.Intent) { in.Send.Reference = "order 8" },
		func(in *store.Intent) { in.Send.Reference, in.Send.To = "", "b•••@例子.中国" },
	} {
		rows = append(rows, f.Admit(t, f.Intent(n, change)).Send)
		f.Pass(time.Second)
	}
	f.End(t, rows[3].ID, store.Outcome{Status: store.Sent, Provider: "mx.example.net"})
	rows[3] = f.Row(t, rows[3].ID)
	r := f.Refusal(0, func(s *store.Send) { s.Country, s.Prefix = "FR", "+336" })
	OK(t, f.Refused(t.Context(), []store.Send{r}))
	rows = append(rows, f.Row(t, r.ID))

	who := rows[0].Recipient
	for name, c := range map[string]struct {
		filter store.Filter
		want   []int
	}{
		"all":            {store.Filter{}, []int{5, 4, 3, 2, 1, 0}},
		"recipient":      {store.Filter{Recipient: &who}, []int{5, 0}},
		"status":         {store.Filter{Status: store.Refused}, []int{5}},
		"channel":        {store.Filter{Channel: recipient.SMS}, []int{1}},
		"purpose":        {store.Filter{Purpose: "signup"}, []int{2}},
		"app":            {store.Filter{App: "other"}, []int{0}},
		"blocked by":     {store.Filter{BlockedBy: "minute"}, []int{5}},
		"reference":      {store.Filter{Reference: "order 8"}, []int{3}},
		"from":           {store.Filter{From: rows[3].LoggedAt}, []int{5, 4, 3}},
		"to":             {store.Filter{To: rows[3].LoggedAt}, []int{2, 1, 0}},
		"between":        {store.Filter{From: rows[1].LoggedAt, To: rows[3].LoggedAt}, []int{2, 1}},
		"before":         {store.Filter{Before: &store.Mark{At: rows[2].LoggedAt, ID: rows[2].ID}}, []int{1, 0}},
		"after":          {store.Filter{After: &store.Mark{At: rows[2].LoggedAt, ID: rows[2].ID}}, []int{5, 4, 3}},
		"nearest after":  {store.Filter{After: &store.Mark{At: rows[1].LoggedAt, ID: rows[1].ID}, Limit: 2}, []int{3, 2}},
		"after the last": {store.Filter{After: &store.Mark{At: rows[5].LoggedAt, ID: rows[5].ID}}, nil},
		"app after":      {store.Filter{App: "shop", After: &store.Mark{At: rows[0].LoggedAt, ID: rows[0].ID}, Limit: 2}, []int{2, 1}},
		"app before":     {store.Filter{App: "shop", Before: &store.Mark{At: rows[3].LoggedAt, ID: rows[3].ID}}, []int{2, 1}},
		"app and from":   {store.Filter{App: "shop", From: rows[2].LoggedAt, To: rows[4].LoggedAt}, []int{3, 2}},
		"a common app":   {store.Filter{App: "shop", Limit: 3}, []int{5, 4, 3}},
		"two kinds":      {store.Filter{Channel: recipient.Email, Purpose: "login"}, []int{5, 4, 3, 0}},
		"three kinds":    {store.Filter{App: "shop", Channel: recipient.Email, Purpose: "login", Status: store.Sent}, []int{3}},
		"kind in flight": {store.Filter{App: "shop", Status: store.Sending}, []int{4, 2, 1}},
		"unheard of":     {store.Filter{Purpose: "nothing"}, nil},
		"carrier":        {store.Filter{Provider: "mx.example.net"}, []int{3}},
		"carrier, app":   {store.Filter{Provider: "mx.example.net", App: "other"}, nil},
		"unused carrier": {store.Filter{Provider: "mx.example.com"}, nil},
		"carrier, state": {store.Filter{Provider: "mx.example.net", Status: store.Failed}, nil},
		"country":        {store.Filter{Country: "DE"}, []int{1}},
		"refused there":  {store.Filter{Country: "FR", Status: store.Refused}, []int{5}},
		"other country":  {store.Filter{Country: "AT"}, nil},
		"domain":         {store.Filter{Domain: "例子.中国"}, []int{4}},
		"domain's end":   {store.Filter{Domain: "ple.com"}, nil},
		"domain before":  {store.Filter{Domain: "example.com", Before: &store.Mark{At: rows[3].LoggedAt, ID: rows[3].ID}}, []int{2, 0}},
		"several":        {store.Filter{Recipient: &who, Status: store.Sending, Purpose: "login"}, []int{0}},
		"none":           {store.Filter{App: "other", Status: store.Refused}, nil},
		"two":            {store.Filter{Limit: 2}, []int{5, 4}},
		"unlikely texts": {store.Filter{Reference: "a\x00\xff"}, nil},
		"quotes":         {store.Filter{Reference: `' OR ''='`}, nil},
	} {
		if c.filter.Limit == 0 {
			c.filter.Limit = store.MaxPage
		}
		var want []store.Send
		for _, i := range c.want {
			want = append(want, rows[i])
		}
		Equal(t, name, Must(f.Sends(t.Context(), c.filter))(t), want)
	}
}

// filterByCodeState: a send is found by what became of its code, which is one thing at a time, and by the client's network.
func filterByCodeState(t *testing.T, f *Fixture) {
	codes := map[store.CodeState]store.Begun{}
	begin := func(state store.CodeState, tries int) string {
		b := f.Admit(t, f.Intent(len(codes), func(in *store.Intent) {
			in.Verification.MaxAttempts, in.Send.IP = 1, fmt.Sprintf("192.0.2.%d/32", len(codes))
		}))
		codes[state] = b
		useTries(t, f, b.Verification.ID, tries)
		return b.Verification.ID
	}
	f.approve(t, begin(store.CodeEntered, 1)) // also where there was a try, and the time is over
	cancel(t, f, begin(store.CodeCanceled, 1))
	begin(store.CodeLocked, 1)
	begin(store.CodeExpired, 0)
	f.Pass(10 * time.Minute) // exactly
	begin(store.CodeWaiting, 0)
	OK(t, f.Refused(t.Context(), []store.Send{f.Refusal(0, func(s *store.Send) { s.VerificationID = codes[store.CodeEntered].Verification.ID })}))
	var ids []string
	for state, b := range codes {
		for _, filter := range []store.Filter{{Outcome: state}, {Network: b.Send.IP}} {
			filter.Limit = 10
			Equal(t, fmt.Sprintf("%+v", filter), IDs(Must(f.Sends(t.Context(), filter))(t)), []uuid.UUID{b.Send.ID})
		}
		ids = append(ids, b.Verification.ID)
	}
	got, now := Must2(f.CodesOf(t.Context(), append(ids, "unknown")))(t)
	Equal(t, "codes", len(got), len(codes))
	Equal(t, "clock", now, f.Now)
	for _, v := range got {
		Equal(t, "code", v, f.Code(t, v.ID))
	}
}

// pages: rows that come in between, also of the instant that a page ended in, are neither repeated nor do they make a gap.
func pages(t *testing.T, f *Fixture) {
	n := 0
	add := func(count int) (added []uuid.UUID) {
		for range count {
			added = append(added, f.Admit(t, f.Intent(n)).Send.ID)
			n++
		}
		return added
	}
	var old []uuid.UUID
	for range 5 {
		old = append(old, add(4)...) // four of one instant
		f.Pass(time.Millisecond)
	}
	f.Pass(-time.Millisecond)
	got := f.pages(t, store.Filter{Limit: 3}, false, func() {
		add(2) // of the newest instant, then of newer ones
		f.Pass(time.Microsecond)
	})
	Equal(t, "rows seen", IDs(got), reversed(old))

	// And back, from the oldest to what is the newest by then.
	oldest := got[len(got)-1]
	back := f.pages(t, store.Filter{Limit: 3, After: &store.Mark{At: oldest.LoggedAt, ID: oldest.ID}}, true, func() {})
	Equal(t, "rows seen backwards", append(IDs(back), oldest.ID), IDs(f.All(t)))
}
