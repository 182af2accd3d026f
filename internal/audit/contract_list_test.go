package audit

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
)

func filters(t *testing.T, f *fixture) {
	var rows []Send // oldest first
	for n, change := range []func(*Intent){
		func(in *Intent) { in.Send.App = "other" },
		func(in *Intent) {
			in.Send.Channel, in.Send.To, in.Send.Country, in.Send.Prefix = recipient.SMS, "+49 151•••021", "DE", "+49151"
		},
		func(in *Intent) { in.Send.Purpose = "signup" },
		func(in *Intent) { in.Send.Reference = "order 8" },
		func(in *Intent) { in.Send.Reference, in.Send.To = "", "b•••@例子.中国" },
	} {
		rows = append(rows, f.admit(t, f.intent(n, change)).Send)
		f.pass(time.Second)
	}
	f.finish(t, Outcome{Held: Held{rows[3].ID, 1}, Status: Sent, Provider: "mx.example.net"}, true)
	rows[3] = f.row(t, rows[3].ID)
	r := f.refusal(0, func(s *Send) { s.Country, s.Prefix = "FR", "+336" })
	ok(t, f.Refused(t.Context(), []Send{r}))
	rows = append(rows, f.row(t, r.ID))

	who := rows[0].Recipient
	for name, c := range map[string]struct {
		filter Filter
		want   []int
	}{
		"all":            {Filter{}, []int{5, 4, 3, 2, 1, 0}},
		"recipient":      {Filter{Recipient: &who}, []int{5, 0}},
		"status":         {Filter{Status: Refused}, []int{5}},
		"channel":        {Filter{Channel: recipient.SMS}, []int{1}},
		"purpose":        {Filter{Purpose: "signup"}, []int{2}},
		"app":            {Filter{App: "other"}, []int{0}},
		"blocked by":     {Filter{BlockedBy: "minute"}, []int{5}},
		"reference":      {Filter{Reference: "order 8"}, []int{3}},
		"from":           {Filter{From: rows[3].LoggedAt}, []int{5, 4, 3}},
		"to":             {Filter{To: rows[3].LoggedAt}, []int{2, 1, 0}},
		"between":        {Filter{From: rows[1].LoggedAt, To: rows[3].LoggedAt}, []int{2, 1}},
		"before":         {Filter{Before: &Mark{rows[2].LoggedAt, rows[2].ID}}, []int{1, 0}},
		"after":          {Filter{After: &Mark{rows[2].LoggedAt, rows[2].ID}}, []int{5, 4, 3}},
		"nearest after":  {Filter{After: &Mark{rows[1].LoggedAt, rows[1].ID}, Limit: 2}, []int{3, 2}},
		"after the last": {Filter{After: &Mark{rows[5].LoggedAt, rows[5].ID}}, nil},
		"app after":      {Filter{App: "shop", After: &Mark{rows[0].LoggedAt, rows[0].ID}, Limit: 2}, []int{2, 1}},
		"app before":     {Filter{App: "shop", Before: &Mark{rows[3].LoggedAt, rows[3].ID}}, []int{2, 1}},
		"app and from":   {Filter{App: "shop", From: rows[2].LoggedAt, To: rows[4].LoggedAt}, []int{3, 2}},
		"a common app":   {Filter{App: "shop", Limit: 3}, []int{5, 4, 3}},
		"two kinds":      {Filter{Channel: recipient.Email, Purpose: "login"}, []int{5, 4, 3, 0}},
		"three kinds":    {Filter{App: "shop", Channel: recipient.Email, Purpose: "login", Status: Sent}, []int{3}},
		"kind in flight": {Filter{App: "shop", Status: Sending}, []int{4, 2, 1}},
		"unheard of":     {Filter{Purpose: "nothing"}, nil},
		"carrier":        {Filter{Provider: "mx.example.net"}, []int{3}},
		"carrier, app":   {Filter{Provider: "mx.example.net", App: "other"}, nil},
		"unused carrier": {Filter{Provider: "mx.example.com"}, nil},
		"carrier, state": {Filter{Provider: "mx.example.net", Status: Failed}, nil},
		"country":        {Filter{Country: "DE"}, []int{1}},
		"refused there":  {Filter{Country: "FR", Status: Refused}, []int{5}},
		"other country":  {Filter{Country: "AT"}, nil},
		"domain":         {Filter{Domain: "例子.中国"}, []int{4}},
		"domain's end":   {Filter{Domain: "ple.com"}, nil},
		"domain before":  {Filter{Domain: "example.com", Before: &Mark{rows[3].LoggedAt, rows[3].ID}}, []int{2, 0}},
		"several":        {Filter{Recipient: &who, Status: Sending, Purpose: "login"}, []int{0}},
		"none":           {Filter{App: "other", Status: Refused}, nil},
		"two":            {Filter{Limit: 2}, []int{5, 4}},
		"unlikely texts": {Filter{Reference: "a\x00\xff"}, nil},
		"quotes":         {Filter{Reference: `' OR ''='`}, nil},
	} {
		if c.filter.Limit == 0 {
			c.filter.Limit = maxPage
		}
		var want []Send
		for _, i := range c.want {
			want = append(want, rows[i])
		}
		got, err := f.Sends(t.Context(), c.filter)
		ok(t, err)
		equal(t, name, got, want)
	}
	_, err := f.Sends(t.Context(), Filter{Limit: 1, Before: &Mark{}, After: &Mark{}})
	is(t, err, ErrBadRequest)
	for _, limit := range []int{-1, 0, 201} {
		_, err := f.Sends(t.Context(), Filter{Limit: limit})
		is(t, err, ErrBadRequest)
	}
}

// pages: rows that come in between, also of the instant that a page ended in, are neither repeated nor do they make a gap.
func pages(t *testing.T, f *fixture) {
	n := 0
	add := func(count int) (added []uuid.UUID) {
		for range count {
			added = append(added, f.admit(t, f.intent(n)).Send.ID)
			n++
		}
		return added
	}
	var old []uuid.UUID
	for range 5 {
		old = append(old, add(4)...) // four of one instant
		f.pass(time.Millisecond)
	}
	f.pass(-time.Millisecond)
	var got []uuid.UUID
	filter := Filter{Limit: 3}
	for {
		page, err := f.Sends(t.Context(), filter)
		ok(t, err)
		got = append(got, ids(page)...)
		if len(page) < 3 {
			break
		}
		last := page[len(page)-1]
		filter.Before = &Mark{last.LoggedAt, last.ID}
		add(2) // of the newest instant, then of newer ones
		f.pass(time.Microsecond)
	}
	equal(t, "rows seen", got, reversed(old))

	// And back, from the oldest to what is the newest by then.
	back := got[len(got)-1:]
	filter = Filter{Limit: 3, After: &Mark{f.row(t, back[0]).LoggedAt, back[0]}}
	for {
		page, err := f.Sends(t.Context(), filter)
		ok(t, err)
		if len(page) == 0 {
			break
		}
		back = append(ids(page), back...)
		filter.After = &Mark{page[0].LoggedAt, page[0].ID}
	}
	equal(t, "rows seen backwards", back, ids(f.all(t)))
}
