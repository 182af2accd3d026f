package gate

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

var now = time.Date(2030, 3, 1, 12, 0, 0, 123457000, time.UTC)

// ask is an intent under one sliding rule; change adds to it.
func ask(limit int, window time.Duration, change ...func(*store.Intent)) store.Intent {
	in := store.Intent{
		Send: store.Send{ID: uuid.UUID{15: 9}, App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: recipient.Hash{1},
			Clock: store.LogClock},
		Verification: store.Verification{ID: "new", App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: recipient.Hash{1},
			Holder: "session", MaxAttempts: 5},
		Purposes: []string{"login"}, TTL: 10 * time.Minute, MinLife: 2 * time.Minute, Lease: 8 * time.Second,
		Rules: []quota.Rule{{Name: "rule", Scope: quota.Recipient, Limit: limit, Window: window}},
	}
	for _, c := range change {
		c(&in)
	}
	return in
}

// ago is a counting send on the log's clock.
func ago(d time.Duration) CountedSend {
	return CountedSend{ID: uuid.New(), Clock: store.LogClock, TakenAt: now.Add(-d), LoggedAt: now.Add(-d)}
}

// A send counts until its window has passed, and not a microsecond longer.
func TestDecideAtTheEdgeOfAWindow(t *testing.T) {
	for name, c := range map[string]struct {
		limit int
		past  []CountedSend
		want  bool
	}{
		"nothing yet":              {1, nil, true},
		"a microsecond too early":  {1, []CountedSend{ago(time.Minute - time.Microsecond)}, false},
		"to the microsecond":       {1, []CountedSend{ago(time.Minute)}, true},
		"one of two":               {2, []CountedSend{ago(time.Second)}, true},
		"two of two":               {2, []CountedSend{ago(time.Second), ago(2 * time.Second)}, false},
		"one that has yet to come": {1, []CountedSend{ago(-time.Second)}, false},
	} {
		d := Decide(ask(c.limit, time.Minute), now, Facts{Past: c.past})
		if d.Admitted != c.want {
			t.Errorf("%s: admitted %v", name, d.Admitted)
		}
		if d.Admitted && (d.Send.Number != 1 || d.Send.LoggedAt != now || d.Verification.ExpiresAt != now.Add(10*time.Minute)) {
			t.Errorf("%s: %+v", name, d.Send)
		}
	}
}

// Each rule has a window of its own: an event leaves the minute while the hour still counts it.
func TestDecideByEachWindow(t *testing.T) {
	hour := func(in *store.Intent) {
		in.Rules = append(in.Rules, quota.Rule{Name: "hour", Limit: 2, Window: time.Hour})
	}
	for age, want := range map[time.Duration]bool{time.Minute - time.Microsecond: false, time.Minute: true} {
		if d := Decide(ask(1, time.Minute, hour), now, Facts{Past: []CountedSend{ago(age)}}); d.Admitted != want {
			t.Errorf("after %v: admitted %v", age, d.Admitted)
		}
	}
}

// What the decision hands to the limiter is what counts, the oldest first, and nothing that has just left the longest window.
func TestDecideTellsWhatCounts(t *testing.T) {
	d := Decide(ask(5, time.Minute), now, Facts{Past: []CountedSend{ago(time.Second), ago(time.Minute), ago(time.Minute - time.Microsecond)}})
	if len(d.History) != 2 || d.History[0].At != now.Add(-time.Minute+time.Microsecond) || d.History[1].At != now.Add(-time.Second) {
		t.Errorf("%v", d.History)
	}
	bounded := func(in *store.Intent) { in.Rejections = quota.Rule{Name: "rejections", Limit: 5, Window: time.Hour} }
	d = Decide(ask(5, time.Minute, bounded), now, Facts{Rejections: []Rejection{{At: now.Add(-time.Second)}, {At: now.Add(-time.Hour)},
		{At: now.Add(-time.Minute)}}})
	if len(d.Rejected) != 2 || d.Rejected[0].At != now.Add(-time.Minute) || d.Rejected[1].At != now.Add(-time.Second) {
		t.Errorf("rejected: %v", d.Rejected)
	}
}

// Rows that are placed for a limiter have the instants of its own clock, also where that is far ahead of the log's.
func TestBefore(t *testing.T) {
	const clock = "redis-1"
	ahead := now.Add(time.Hour)
	rows := []CountedSend{
		{ID: uuid.UUID{1}, Clock: clock, TakenAt: ahead.Add(-10 * time.Second), LoggedAt: now.Add(-10 * time.Second)},
		{ID: uuid.UUID{2}, Clock: store.LogClock, TakenAt: now.Add(-20 * time.Second), LoggedAt: now.Add(-20 * time.Second)},
		{ID: uuid.UUID{3}, Clock: clock, TakenAt: ahead.Add(-time.Minute), LoggedAt: now.Add(-time.Minute)},
	}
	events := EventsBefore(rows, time.Minute, clock, ahead, now)
	if len(events) != 2 || events[0].At != ahead.Add(-20*time.Second) || events[1].At != ahead.Add(-10*time.Second) {
		t.Errorf("%v", events)
	}
}

func TestSince(t *testing.T) {
	events := RejectionsSince([]Rejection{{At: now.Add(-time.Second)}, {At: now.Add(-time.Hour)}, {At: now.Add(-time.Hour + time.Microsecond)}}, now,
		time.Hour)
	if len(events) != 2 || events[0].At != now.Add(-time.Hour+time.Microsecond) || events[1].At != now.Add(-time.Second) {
		t.Errorf("%v", events)
	}
}

// A limiter's clock is believed where a row has it too, but no more than a second beyond the log's.
func TestDecideOnALimitersClock(t *testing.T) {
	row := func(taken, logged time.Duration) CountedSend {
		return CountedSend{ID: uuid.New(), Clock: "redis", TakenAt: now.Add(-taken), LoggedAt: now.Add(-logged)}
	}
	on := func(clock string, ahead time.Duration) func(*store.Intent) {
		return func(in *store.Intent) { in.Send.Clock, in.Send.TakenAt = clock, now.Add(ahead) }
	}
	for name, c := range map[string]struct {
		clock string
		ahead time.Duration
		row   CountedSend
		want  bool
	}{
		"a minute by the limiter, a little less by the log": {"redis", 0, row(time.Minute, time.Minute-MaxClockSkew), true},
		"more than a second less by the log":                {"redis", 0, row(time.Minute, time.Minute-MaxClockSkew-time.Microsecond), false},
		"less by the limiter":                               {"redis", 0, row(time.Minute-time.Microsecond, time.Hour), false},
		"another clock: by the log":                         {"other", 0, row(time.Hour, time.Minute-time.Microsecond), false},
		"another clock: a minute by the log":                {"other", 0, row(0, time.Minute), true},
		"a limiter set far ahead":                           {"redis", time.Hour, row(0, 0), false},
		"a row of a limiter that was set far ahead":         {"redis", 0, row(-48*time.Hour, time.Minute+MaxStale), true},
		"the same while it may count":                       {"redis", 0, row(-48*time.Hour, time.Minute+MaxStale-time.Microsecond), false},
	} {
		if d := Decide(ask(1, time.Minute, on(c.clock, c.ahead)), now, Facts{Past: []CountedSend{c.row}}); d.Admitted != c.want {
			t.Errorf("%s: admitted %v", name, d.Admitted)
		}
	}
}

// Rejected mails are bounded by themselves.
func TestDecideOnRejections(t *testing.T) {
	bounded := func(in *store.Intent) {
		in.Rejections = quota.Rule{Name: "rejections", Limit: 2, Window: 24 * time.Hour}
	}
	for want, rows := range map[bool][]Rejection{
		true:  {{At: now.Add(-time.Hour)}, {At: now.Add(-24 * time.Hour)}},
		false: {{At: now.Add(-time.Hour)}, {At: now.Add(-24*time.Hour + time.Microsecond)}},
	} {
		if d := Decide(ask(1, time.Minute, bounded), now, Facts{Rejections: rows}); d.Admitted != want {
			t.Errorf("admitted %v with %v", d.Admitted, rows)
		}
	}
}

// The holder's newest verification that lives long enough is resent; no other is.
func TestDecideWhatIsResent(t *testing.T) {
	open := func(change func(*store.Verification)) store.Verification {
		v := ask(1, time.Minute).Verification
		v.ID, v.CreatedAt, v.ExpiresAt, v.Sends = "old", now.Add(-time.Minute), now.Add(9*time.Minute), 1
		if change != nil {
			change(&v)
		}
		return v
	}
	named := func(in *store.Intent) { in.Join, in.Verification.Holder = "old", "" }
	for name, c := range map[string]struct {
		in   func(*store.Intent)
		v    func(*store.Verification)
		want bool
	}{
		"of the holder":     {nil, nil, true},
		"of another holder": {nil, func(v *store.Verification) { v.Holder = "another" }, false},
		"of no holder": {func(in *store.Intent) { in.Verification.Holder = "" }, func(v *store.Verification) { v.Holder = "" },
			false},
		"named":                      {named, func(v *store.Verification) { v.Holder = "another" }, true},
		"another than the one named": {named, func(v *store.Verification) { v.ID = "another" }, false},
		"of another app":             {nil, func(v *store.Verification) { v.App = "desk" }, false},
		"of another purpose":         {nil, func(v *store.Verification) { v.Purpose = "signup" }, false},
		"of another channel":         {nil, func(v *store.Verification) { v.Channel = recipient.SMS }, false},
		"of another recipient":       {named, func(v *store.Verification) { v.Recipient = recipient.Hash{2} }, false},
		"with just enough life":      {nil, func(v *store.Verification) { v.ExpiresAt = now.Add(2 * time.Minute) }, true},
		"with too little life":       {nil, func(v *store.Verification) { v.ExpiresAt = now.Add(2*time.Minute - time.Microsecond) }, false},
		"approved":                   {nil, func(v *store.Verification) { v.ApprovedAt = now.Add(-time.Second) }, false},
		"canceled":                   {nil, func(v *store.Verification) { v.CanceledAt = now.Add(-time.Second) }, false},
		"without a try left":         {nil, func(v *store.Verification) { v.Attempts = 5 }, false},
	} {
		in := ask(1, time.Minute)
		if c.in != nil {
			c.in(&in)
		}
		d := Decide(in, now, Facts{Candidates: []store.Verification{open(c.v)}})
		if d.Joined != c.want || d.Send.Number != map[bool]int{true: 2, false: 1}[c.want] {
			t.Errorf("%s: joined %v, number %d", name, d.Joined, d.Send.Number)
		}
	}
	newest := open(func(v *store.Verification) { v.ID, v.CreatedAt = "newest", now.Add(-time.Second) })
	if d := Decide(ask(1, time.Minute), now, Facts{Candidates: []store.Verification{open(nil), newest,
		open(nil)}}); d.Verification.ID != "newest" {
		t.Errorf("joined %q", d.Verification.ID)
	}
}

// Failed checks lock out the codes of one kind of caller: 20 in a day, or 100 in a row in a month.
func TestLockout(t *testing.T) {
	tried := func(n int, attempts int, expired time.Duration, change ...func(*TriedCode)) (list []TriedCode) {
		for range n {
			c := TriedCode{ExpiresAt: now.Add(-expired), Attempts: attempts}
			for _, x := range change {
				x(&c)
			}
			list = append(list, c)
		}
		return list
	}
	approved := func(c *TriedCode) { c.ApprovedAt = c.ExpiresAt.Add(-time.Minute) }
	month := func() (list []TriedCode) { // 99 in a row, few on each day
		for day := range 25 {
			list = append(list, tried(1, 4, time.Duration(day+2)*24*time.Hour)...)
		}
		list[0].Attempts = 3
		return list
	}
	for name, c := range map[string]struct {
		list []TriedCode
		want time.Duration
	}{
		"19 in a day":                        {tried(19, 1, time.Hour), 0},
		"20 in a day":                        {tried(20, 1, time.Hour), 23 * time.Hour},
		"20, and the oldest no longer count": {append(tried(19, 1, time.Hour), tried(1, 1, FailureWindow)...), 0},
		"to the microsecond":                 {append(tried(19, 1, time.Hour), tried(1, 1, FailureWindow-time.Microsecond)...), time.Microsecond},
		"an approved code's last try":        {tried(4, 5, time.Hour, approved), 0},
		"right ones":                         {tried(20, 1, time.Hour, approved), 0},
		"forgiven ones":                      {tried(4, 5, time.Hour, func(c *TriedCode) { c.Forgiven = 1 }), 0},
		"the right one among the forgiven": {append(tried(20, 1, time.Hour),
			tried(1, 1, 2*time.Hour, approved, func(c *TriedCode) { c.Forgiven = 1 })...), 23 * time.Hour},
		"until the oldest code ends":      {append(tried(3, 5, time.Hour), tried(1, 5, 4*time.Hour)...), 20 * time.Hour},
		"until enough of them have ended": {append(tried(5, 4, time.Hour), tried(1, 1, 4*time.Hour)...), 23 * time.Hour},
		"99 in a row":                     {month(), 0},
		"100 in a row":                    {append(month(), tried(1, 1, time.Hour)...), RowWindow - 26*24*time.Hour},
		"one that ended with the right one": {append(append(month(), tried(1, 1, 26*24*time.Hour)...),
			tried(1, 1, 26*24*time.Hour-time.Minute, approved)...), 0},
		"a right one between": {append(append(month(), tried(1, 1, 12*time.Hour)...), tried(1, 1, 36*time.Hour, approved)...), 0},
	} {
		if out := LockoutOf(c.list, now); out.Wait != c.want {
			t.Errorf("%s: %v, wanted %v", name, out.Wait, c.want)
		}
	}
	if got := LockoutOf(append(tried(19, 1, time.Hour), tried(1, 1, FailureWindow)...), now); got.Failures != 19 {
		t.Errorf("%d failures in a day", got.Failures)
	}
	if row := unbrokenRow(tried(1, 5, time.Hour, approved)); len(row) != 0 {
		t.Errorf("the right code's failures are in a row: %+v", row)
	}
	soon := tried(20, 1, FailureWindow-time.Microsecond)
	if d := Decide(ask(1, time.Minute), now, Facts{Tried: soon}); d.Admitted || d.Lockout.Wait != time.Microsecond {
		t.Errorf("a microsecond before the end: %+v", d.Lockout)
	}
	browsers := tried(20, 1, time.Hour, func(c *TriedCode) { c.ByBrowser = true })
	if d := Decide(ask(1, time.Minute), now, Facts{Tried: browsers}); !d.Admitted {
		t.Errorf("wrong codes of browsers lock out a back end: %+v", d.Lockout)
	}
	byBrowser := func(in *store.Intent) { in.Verification.ByBrowser, in.Verification.Holder = true, "" }
	if d := Decide(ask(1, time.Minute, byBrowser), now, Facts{Tried: browsers}); d.Admitted || d.Lockout.Wait != 23*time.Hour ||
		!d.Lockout.ByBrowser {
		t.Errorf("a browser is let in: %+v", d.Lockout)
	}
}
