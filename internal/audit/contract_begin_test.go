package audit

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

func beginWrites(t *testing.T, f *fixture) {
	taken := epoch.Add(-7 * time.Hour).Add(123 * time.Nanosecond).In(time.FixedZone("east", 3600))
	in := f.intent(1, takenAt("redis", taken), withRules(defaultRules))
	in.Send.Observed = []string{"office", "stricter"}
	in.Verification.Alphabet = "unambiguous"
	in.Verification.Holder, in.Verification.Locale, in.Verification.App = "s:1", "ignored", "ignored"
	got := f.admit(t, in)

	v := Verification{
		ID: in.Verification.ID, App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: in.Send.Recipient,
		To: "a•••@example.com", Sealed: []byte{0, 1, 255}, Holder: "s:1", Nonce: []byte("0123456789abcdef"), KeyID: "k1",
		CodeLength: 6, Alphabet: "unambiguous", Locale: "en", Reference: "order 7", CreatedAt: f.now, ExpiresAt: f.now.Add(10 * time.Minute),
		MaxAttempts: 5, Sends: 1,
	}
	s := Send{
		ID: in.Send.ID, VerificationID: v.ID, Number: 1, App: "shop", Channel: recipient.Email, Purpose: "login",
		Recipient: in.Send.Recipient, To: "a•••@example.com", Locale: "en", Reference: "order 7", IP: "192.0.2.0/24",
		Status: Sending, Attempt: 1, Counts: true, TakenAt: epoch.Add(-7 * time.Hour), Clock: "redis", LoggedAt: f.now,
		DueAt: f.now.Add(8 * time.Second), Count: 1, Observed: []string{"office", "stricter"},
	}
	equal(t, "begun", got, Begun{Admitted: true, Verification: v, Send: s, At: s.TakenAt, Now: f.now, Clock: LogClock})
	equal(t, "row", f.row(t, s.ID), s)
	read, newest, now, err := f.Verification(t.Context(), v.ID)
	ok(t, err)
	equal(t, "verification", read, v)
	equal(t, "newest send", newest, s)
	equal(t, "clock", now, f.now)
}

func refusalLeavesNothing(t *testing.T, f *fixture) {
	first := f.admit(t, f.intent(1, withRules(rule(1, time.Minute))))
	before := f.all(t)
	in := f.intent(1, withRules(rule(1, time.Minute)))
	got := f.refuse(t, in)
	equal(t, "verification and send", show(got.Verification)+show(got.Send), show(Verification{})+show(Send{}))
	equal(t, "rows", f.all(t), before)
	_, _, _, err := f.Attempt(t.Context(), in.Verification.ID)
	is(t, err, ErrNotFound)

	resend := f.intent(1, withRules(rule(1, time.Minute)), func(in *Intent) { in.Join = first.Verification.ID })
	f.refuse(t, resend)
	v, _, _, err := f.Verification(t.Context(), first.Verification.ID)
	ok(t, err)
	equal(t, "sends of the joined verification", v.Sends, 1)
}

// defaultPolicy walks the three windows: a place is free again exactly one window after its send, and 1 µs earlier it
// is not.
func defaultPolicy(t *testing.T, f *fixture) {
	last := time.Duration(0)
	begun := func(at time.Duration) bool {
		f.pass(at - last) // by the log's clock, which is years from the limiter's
		last = at
		return f.begin(t, f.intent(1, takenAt("redis", epoch.AddDate(-3, 0, 0).Add(at)), withRules(defaultRules))).Admitted
	}
	steps := []struct {
		at   time.Duration
		want bool
	}{
		{0, true}, {time.Minute - time.Microsecond, false}, {time.Minute, true}, {2 * time.Minute, true},
		{3 * time.Minute, true}, {4 * time.Minute, true},
		{5 * time.Minute, false}, {time.Hour - time.Microsecond, false}, {time.Hour, true}, // the hour is full of five
		{time.Hour + time.Minute - time.Microsecond, false}, {time.Hour + time.Minute, true},
		{time.Hour + 2*time.Minute, true}, {time.Hour + 3*time.Minute, true}, {time.Hour + 4*time.Minute, true}, // ten
		{2*time.Hour + 4*time.Minute, false}, {24*time.Hour - time.Microsecond, false}, {24 * time.Hour, true},
		{24*time.Hour + time.Minute - time.Microsecond, false}, {24*time.Hour + time.Minute, true},
	}
	for _, s := range steps {
		if got := begun(s.at); got != s.want {
			t.Fatalf("at %v: admitted %v, wanted %v", s.at, got, s.want)
		}
	}
}

func agesOnOneClock(t *testing.T, f *fixture) {
	minute := withRules(rule(1, time.Minute))
	for n, c := range []struct {
		first, second string
		logged, taken time.Duration // from the first to the second
		want          bool
	}{
		{"redis", "redis", time.Minute - time.Second, time.Minute, true},
		{"redis", "redis", time.Hour, time.Minute - time.Microsecond, false},
		{"redis", "other", time.Minute, time.Microsecond, true},
		{"redis", "other", time.Minute - time.Microsecond, time.Hour, false},
		{"redis", "", time.Minute, 0, true},
		{"redis", LogClock, time.Minute - time.Microsecond, time.Hour, false},
		{"", "redis", time.Minute, 0, true},
		{LogClock, "redis", time.Minute - time.Microsecond, time.Hour, false},
	} {
		f.admit(t, f.intent(n, takenAt(c.first, epoch), minute))
		f.pass(c.logged)
		in := f.intent(n, takenAt(c.second, epoch.Add(c.taken)), minute)
		if got := f.begin(t, in).Admitted; got != c.want {
			t.Errorf("%q then %q, %v later by the log, %v by the limiter: admitted %v", c.first, c.second, c.logged, c.taken, got)
		}
	}
}

func logClockAlone(t *testing.T, f *fixture) {
	first := f.admit(t, f.intent(1, withRules(defaultRules), takenAt(LogClock, epoch.Add(time.Hour))))
	equal(t, "clock of the row", first.Send.Clock, LogClock)
	equal(t, "taken at", first.Send.TakenAt, f.now)
	f.pass(time.Minute - time.Microsecond)
	got := f.refuse(t, f.intent(1, withRules(defaultRules)))
	equal(t, "clock", got.Clock, LogClock)
	equal(t, "now", got.Now, f.now)
	f.pass(time.Microsecond)
	f.admit(t, f.intent(1, withRules(defaultRules)))
}

func clocksThatGoBack(t *testing.T, f *fixture) {
	minute := withRules(rule(1, time.Minute))
	f.admit(t, f.intent(1, takenAt("redis", epoch), minute))
	got := f.refuse(t, f.intent(1, takenAt("redis", epoch.Add(-30*time.Second)), minute))
	d := quota.Evaluate(rule(1, time.Minute), map[quota.Scope][]quota.Event{quota.Recipient: got.History}, got.Now)
	equal(t, "wait", d.RetryAfter(), time.Minute)

	f.admit(t, f.intent(2, minute))
	f.pass(-30 * time.Second)
	f.refuse(t, f.intent(2, minute))
	f.pass(90*time.Second - time.Microsecond)
	f.refuse(t, f.intent(2, minute))
	f.pass(time.Microsecond)
	f.admit(t, f.intent(2, minute))
}

// limiterOnceFarAhead: a limiter's clock was a year ahead for one send, then right again.
func limiterOnceFarAhead(t *testing.T, f *fixture) {
	rules := withRules([]quota.Rule{
		{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
		{Name: "hour", Scope: quota.Recipient, Limit: 9, Window: time.Hour},
	})
	f.admit(t, f.intent(1, takenAt("redis", epoch.AddDate(1, 0, 0)), rules))
	f.pass(25*time.Hour - time.Microsecond) // the longest window and a day
	got := f.refuse(t, f.intent(1, takenAt("redis", epoch.Add(25*time.Hour)), rules))
	equal(t, "events", len(got.History), 1)
	f.pass(time.Microsecond)
	f.admit(t, f.intent(1, takenAt("redis", epoch.Add(25*time.Hour)), rules))
}

func whoseSendsCount(t *testing.T, f *fixture) {
	one := withRules(rule(1, time.Hour))
	f.admit(t, f.intent(1, one))
	other := func(change func(*Intent)) { t.Helper(); f.admit(t, f.intent(1, one, change)) }
	other(func(in *Intent) { in.Send.App = "other" })
	other(func(in *Intent) { in.Send.Channel = recipient.SMS })
	other(func(in *Intent) { in.Send.Recipient[0] = 1 })
	other(func(in *Intent) { in.Send.Purpose, in.Purposes = "gift", []string{"gift", "gifts", "log"} })
	f.refuse(t, f.intent(1, one, func(in *Intent) { in.Send.Purpose = "signup" })) // shares login's policy
	f.refuse(t, f.intent(1, one, func(in *Intent) { in.Send.Purpose, in.Purposes = "new", []string{"gift", "new"} }))
	f.admit(t, f.intent(1, one, func(in *Intent) { in.Send.Purpose, in.Purposes = "new", []string{"new"} }))
}

// historyExplains: what Begin answers, given to quota.Evaluate, gives the same decision, also where clocks are mixed.
func historyExplains(t *testing.T, f *fixture) {
	rules := []quota.Rule{
		{Name: "short", Scope: quota.Recipient, Limit: 2, Window: time.Minute},
		{Name: "long", Scope: quota.Recipient, Limit: 4, Window: time.Hour},
	}
	a := f.intent(1, takenAt("redis", epoch), withRules(rules))
	b := f.intent(1, takenAt("old", epoch.AddDate(-1, 0, 0)), withRules(rules))
	c := f.intent(1, withRules(rules))
	f.admit(t, a)
	f.pass(30 * time.Minute)
	f.admit(t, b)
	f.pass(10 * time.Second)
	f.admit(t, c)
	f.pass(20 * time.Second)
	now := epoch.Add(30*time.Minute + 31*time.Second) // redis is a second ahead
	got := f.refuse(t, f.intent(1, takenAt("redis", now), withRules(rules)))
	equal(t, "clock", got.Clock, "redis")
	equal(t, "now", got.Now, now)
	equal(t, "history", got.History, []quota.Event{
		{ID: string(a.Send.ID[:]), At: epoch},
		{ID: string(b.Send.ID[:]), At: now.Add(-30 * time.Second)},
		{ID: string(c.Send.ID[:]), At: now.Add(-20 * time.Second)},
	})
	d := quota.Evaluate(rules, map[quota.Scope][]quota.Event{quota.Recipient: got.History}, got.Now)
	equal(t, "wait", d.RetryAfter(), 30*time.Second)

	f.pass(30 * time.Minute) // a is older than the longest window on redis's clock, not on the log's
	got = f.begin(t, f.intent(1, takenAt("redis", epoch.Add(time.Hour)), withRules(rule(2, time.Hour))))
	equal(t, "events", len(got.History), 2)
	let := f.admit(t, f.intent(1, takenAt("redis", epoch.Add(time.Hour)), withRules(rule(3, time.Hour))))
	equal(t, "told to the one that is let in", let.History, got.History)
	equal(t, "before", let.At, got.Now)
}

func noRules(t *testing.T, f *fixture) {
	for range 3 {
		f.admit(t, f.intent(1))
	}
	got := f.begin(t, f.intent(1, withRules(rule(3, time.Minute))))
	equal(t, "admitted", got.Admitted, false)
}

func repeatedBegin(t *testing.T, f *fixture) {
	in := f.intent(1, takenAt("redis", epoch), withRules(defaultRules))
	in.Send.Observed = []string{"office"}
	first := f.admit(t, in)
	f.pass(time.Second)
	again := f.begin(t, in)
	equal(t, "told to be so", again.Repeated && !first.Repeated, true)
	again.Repeated, first.At = false, time.Time{} // it decides nothing
	equal(t, "repeated", again, first)
	equal(t, "rows", len(f.all(t)), 1)

	done, err := f.Finish(t.Context(), Outcome{Held: Held{in.Send.ID, 1}, Status: Failed, Reason: "rejected", Provider: "mx", ProviderCode: "550", Refund: true})
	ok(t, err)
	equal(t, "finished", done, true)
	again = f.begin(t, in)
	equal(t, "repeated after its end", again.Send, first.Send)

	in.Send.Recipient[0] ^= 1
	_, err = f.Begin(t.Context(), in)
	is(t, err, ErrBadRequest)
}

func badIntents(t *testing.T, f *fixture) {
	for name, change := range map[string]func(*Intent){
		"no ID":            func(in *Intent) { in.Send.ID = uuid.Nil },
		"no verification":  func(in *Intent) { in.Verification.ID = "" },
		"no app":           func(in *Intent) { in.Send.App = "" },
		"no channel":       func(in *Intent) { in.Send.Channel = "" },
		"no purpose":       func(in *Intent) { in.Send.Purpose = ""; in.Purposes = []string{""} },
		"foreign purpose":  func(in *Intent) { in.Send.Purpose = "gift" },
		"no instant":       func(in *Intent) { in.Send.Clock = "redis" },
		"no life":          func(in *Intent) { in.Life = 0 },
		"no lease":         func(in *Intent) { in.Lease = 0 },
		"no tries":         func(in *Intent) { in.Verification.MaxAttempts = 0 },
		"negative life":    func(in *Intent) { in.MinLife = -1 },
		"limit 0":          func(in *Intent) { in.Rules = rule(0, time.Minute) },
		"no window":        func(in *Intent) { in.Rules = rule(1, 0) },
		"NUL":              func(in *Intent) { in.Send.Reference = "a\x00b" },
		"not UTF-8":        func(in *Intent) { in.Send.Locale = "\xff" },
		"joined purposes":  func(in *Intent) { in.Purposes = append(in.Purposes, "a"+separator+"b") },
		"NUL in a purpose": func(in *Intent) { in.Purposes = append(in.Purposes, "a\x00") },
		"browser's holder": func(in *Intent) { in.Verification.ByBrowser, in.Verification.Holder = true, "s:1" },
		"long":             func(in *Intent) { in.Verification.Holder = strings.Repeat("x", maxText+1) },
		"NUL in the join":  func(in *Intent) { in.Join = "\x00" },
		"observing rule":   func(in *Intent) { in.Rules = rule(1, time.Minute); in.Rules[0].Observe = true },
		"rejections < 0":   withRejections(-1, time.Hour),
		"rejections 0 s":   withRejections(1, 0),
		"rejections daily": func(in *Intent) { in.Rejections = quota.Rule{Limit: 1, Per: quota.Day, Window: time.Hour} },
		"rejections tried": func(in *Intent) { in.Rejections = failedAtMost(1, time.Hour); in.Rejections.Observe = true },
		"observed comma":   func(in *Intent) { in.Send.Observed = []string{"a,b"} },
		"observed NUL":     func(in *Intent) { in.Send.Observed = []string{"a", "b\x00"} },
		"observed nothing": func(in *Intent) { in.Send.Observed = []string{""} },
	} {
		_, err := f.Begin(t.Context(), f.intent(1, change))
		if err == nil || !strings.Contains(err.Error(), ErrBadRequest.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	equal(t, "rows", len(f.all(t)), 0)
}

// both is the fixture's log and its replica, in turn.
func (f *fixture) both(i int) Store { return []Store{f.Store, f.replica}[i%2] }

func sixtyCallers(t *testing.T, f *fixture) {
	intents := make([]Intent, 60)
	for i := range intents {
		intents[i] = f.intent(1, takenAt(fmt.Sprint("clock", i%3), epoch.Add(time.Duration(i))), withRules(rule(7, time.Hour)))
	}
	var admitted atomic.Int32
	together(60, func(i int) {
		begun, err := f.both(i).Begin(t.Context(), intents[i])
		if err != nil {
			t.Error(err)
		} else if begun.Admitted {
			admitted.Add(1)
		} else if len(begun.History) != 7 {
			t.Errorf("refused with %d events", len(begun.History))
		}
	})
	equal(t, "admitted", admitted.Load(), 7)
	equal(t, "rows", len(f.all(t)), 7)
}

func mixedRecipients(t *testing.T, f *fixture) {
	const recipients, each = 20, 12
	intents := make([]Intent, recipients*each)
	for i := range intents {
		intents[i] = f.intent(i%recipients, withRules(rule(7, time.Hour)))
		intents[i].Verification.Holder = fmt.Sprint("s:", i/recipients%2) // joins and openings race too
	}
	together(len(intents), func(i int) {
		if _, err := f.both(i/recipients).Begin(t.Context(), intents[i]); err != nil {
			t.Error(err)
		}
	})
	count, numbers := map[recipient.Hash]int{}, map[string][]int{}
	for _, s := range f.all(t) {
		count[s.Recipient]++
		numbers[s.VerificationID] = append(numbers[s.VerificationID], s.Number)
	}
	for i := range recipients {
		if got := count[intents[i].Send.Recipient]; got != 7 {
			t.Errorf("recipient %d has %d sends", i, got)
		}
	}
	for id, list := range numbers {
		slices.Sort(list)
		for i, number := range list {
			if number != i+1 {
				t.Fatalf("sends of %s are numbered %v", id, list)
			}
		}
	}
	if len(numbers) != recipients*2 { // 7 of 12 sends, 6 a holder: both holders have one
		t.Errorf("%d verifications, wanted one for each recipient and holder", len(numbers))
	}
}
