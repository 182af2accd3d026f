package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/quota"
)

var gateNow = time.Date(2030, 3, 1, 12, 0, 0, 123457000, time.UTC)

// askGate returns an intent with one sliding rule, after the changes.
func askGate(limit int, window time.Duration, change ...func(*store.Intent)) store.Intent {
	in := store.Intent{
		Send: store.Send{ID: uuid.UUID{15: 9}, App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: recipient.Hash{1}},
		Verification: store.Verification{
			ID: "new", App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: recipient.Hash{1},
			Holder: store.SessionHolder + "1", MaxAttempts: 5,
		},
		Purposes: []string{"login"}, TTL: 10 * time.Minute, MinLife: 2 * time.Minute, Lease: 8 * time.Second,
		Rules: []quota.Rule{{Name: "rule", Scope: quota.Recipient, Limit: limit, Window: window}},
	}
	for _, c := range change {
		c(&in)
	}
	return in
}

// A row counts while it is younger than the window, even if the database's clock was set back.
// Without a rule on rejections, no rejected send counts.
func TestDecideByTheDatabasesClock(t *testing.T) {
	for age, want := range map[time.Duration]bool{time.Minute: true, time.Minute - time.Microsecond: false, 0: false, -time.Hour: false} {
		rows := []rowrules.PastSend{{ID: uuid.New(), At: gateNow.Add(-age)}}
		d := rowrules.Decide(askGate(1, time.Minute), gateNow, rowrules.RecipientHistory{Past: rows, Rejections: rows})
		if d.Admitted != want || !d.Now.Equal(gateNow) || len(d.Rejected) > 0 {
			t.Errorf("a row of %v ago: admitted %v at %v, rejected %v", age, d.Admitted, d.Now, d.Rejected)
		}
		in := askGate(1, time.Minute)
		in.Rules, in.RejectionRules = nil, []quota.Rule{{Limit: 1, Window: time.Minute}}
		if d := rowrules.Decide(in, gateNow, rowrules.RecipientHistory{Rejections: rows}); d.Admitted != want {
			t.Errorf("a rejection of %v ago: admitted %v", age, d.Admitted)
		}
	}
}

// Failed checks lock out the codes of one class of callers: 20 in a day, or 100 in a row in a
// month.
func TestLockout(t *testing.T) {
	tried := func(n int, attempts int, ago time.Duration, change ...func(*store.Verification)) (list []store.Verification) {
		for range n {
			c := store.Verification{
				Attempts: attempts, ExpiresAt: gateNow.Add(20 * time.Hour),
				Checks: slices.Repeat([]store.Check{{At: gateNow.Add(-ago)}}, attempts),
			}
			for _, x := range change {
				x(&c)
			}
			list = append(list, c)
		}
		return list
	}
	approved := func(c *store.Verification) { c.ApprovedAt = c.Checks[0].At }
	month := func() (list []store.Verification) { // 99 in a row, few on each day
		for day := range 25 {
			list = append(list, tried(1, 4, time.Duration(day+2)*24*time.Hour)...)
		}
		list[0].Attempts = 3
		return list
	}
	of := func(class store.Class) func(*store.Verification) {
		return func(c *store.Verification) { c.Class = class }
	}
	browsers := tried(20, 1, time.Hour, of(store.StrangerClass))
	row := append(month(), tried(1, 1, time.Hour, of(store.KnownBrowser))...)
	spread := store.Verification{Attempts: rowrules.FailedCheckLimit, ExpiresAt: gateNow}
	erased := spread // an erasure removed the instants of its checks
	for hour := range rowrules.FailedCheckLimit {
		spread.Checks = append(spread.Checks, store.Check{At: gateNow.Add(time.Duration(hour-rowrules.FailedCheckLimit) * time.Hour)})
	}
	for name, c := range map[string]struct {
		list []store.Verification
		want time.Duration
	}{
		"19 in a day":                        {tried(19, 1, time.Hour), 0},
		"20 in a day":                        {tried(20, 1, time.Hour), 23 * time.Hour},
		"20, and the oldest no longer count": {append(tried(19, 1, time.Hour), tried(1, 1, rowrules.FailedCheckWindow)...), 0},
		"to the microsecond": {append(tried(19, 1, time.Hour),
			tried(1, 1, rowrules.FailedCheckWindow-time.Microsecond)...), time.Microsecond},
		"an approved code's last try": {tried(4, 5, time.Hour, approved), 0},
		"right ones":                  {tried(20, 1, time.Hour, approved), 0},
		"those before a reset":        {tried(4, 5, time.Hour, func(c *store.Verification) { c.AttemptsReset = 1 }), 0},
		"tries after a reset": {append(tried(19, 1, time.Hour),
			tried(1, 2, time.Hour, func(c *store.Verification) { c.AttemptsReset = 1 })...), 23 * time.Hour},
		"the right one before a reset": {append(tried(20, 1, time.Hour),
			tried(1, 1, 2*time.Hour, approved, func(c *store.Verification) { c.AttemptsReset = 1 })...), 23 * time.Hour},
		"until the oldest code ends":      {append(tried(3, 5, time.Hour), tried(1, 5, 4*time.Hour)...), 20 * time.Hour},
		"until enough of them have ended": {append(tried(5, 4, time.Hour), tried(1, 1, 4*time.Hour)...), 23 * time.Hour},
		"99 in a row":                     {month(), 0},
		"100 in a row": {
			append(month(), tried(1, 1, time.Hour)...),
			rowrules.ConsecutiveFailedCheckWindow - 26*24*time.Hour,
		},
		"one that ended with the right one": {append(append(month(), tried(1, 1, 26*24*time.Hour)...),
			tried(1, 1, 26*24*time.Hour-time.Minute, approved)...), 0},
		"an erased one that was approved": {tried(25, 5, time.Hour, approved, func(c *store.Verification) {
			c.Class, c.Checks = store.KnownBrowser, nil
		}), 0},
		"a right one between": {
			append(append(month(), tried(1, 1, 12*time.Hour)...), tried(1, 1, 36*time.Hour, approved)...),
			0,
		},
		"a day's code that fails each hour": {[]store.Verification{spread}, 4 * time.Hour},
		"erased ones, from the expiry":      {[]store.Verification{erased}, rowrules.FailedCheckWindow},
		"those of browsers":                 {browsers, 0},
		"100 in a row of two classes":       {row, rowrules.ConsecutiveFailedCheckWindow - 26*24*time.Hour},
		"one that a browser ended":          {append(row, tried(1, 1, time.Minute, approved, of(store.StrangerClass))...), 0},
	} {
		servertest.Same(t, name, rowrules.LockoutOf(c.list, store.SecretKeyClass, gateNow).Wait, c.want)
	}
	nineteen := append(tried(19, 1, time.Hour), tried(1, 1, rowrules.FailedCheckWindow)...)
	servertest.Same(t, "failures in a day", rowrules.LockoutOf(nineteen, store.SecretKeyClass, gateNow).Failures, 19)
	soon := tried(20, 1, rowrules.FailedCheckWindow-time.Microsecond)
	if d := rowrules.Decide(askGate(1, time.Minute), gateNow, rowrules.RecipientHistory{Tried: soon}); d.Admitted ||
		d.Lockout.Wait != time.Microsecond {
		t.Errorf("a microsecond before the end: %+v", d.Lockout)
	}
	byBrowser := func(in *store.Intent) { in.Verification.Class, in.Verification.Holder = store.StrangerClass, "" }
	if d := rowrules.Decide(askGate(1, time.Minute, byBrowser), gateNow, rowrules.RecipientHistory{Tried: browsers}); d.Admitted ||
		d.Lockout.Wait != 23*time.Hour ||
		d.Lockout.Class != store.StrangerClass {
		t.Errorf("a browser is let in: %+v", d.Lockout)
	}
}

// Each text of a send that a caller gives is written to its row, and is refused if a database can't
// store it.
func TestEveryTextIsCheckedAndWritten(t *testing.T) {
	tried := 0
	for i, c := range new(store.Send).Columns() {
		if _, ok := c.Field.(*string); !ok || c.Flags&store.InsertedByBegin == 0 ||
			slices.Contains([]string{"verification_id", "status", "domain"}, c.Name) {
			continue
		}
		tried++
		bad := askGate(1, time.Minute)
		*bad.Send.Columns()[i].Field.(*string) = "\x00"
		if _, err := store.ValidatedIntent(bad); !errors.Is(err, store.ErrBadRequest) {
			t.Errorf("%s with a NUL: %v", c.Name, err)
		}
		good := askGate(1, time.Minute)
		*good.Send.Columns()[i].Field.(*string) = "text"
		written := rowrules.Decide(good, gateNow, rowrules.RecipientHistory{}).Send
		servertest.Same(t, c.Name+" is written", *written.Columns()[i].Field.(*string), "text")
	}
	if tried < 9 {
		t.Errorf("%d texts", tried)
	}
}

// Decide resends the verification that Join names, or else the newest that can be resent, in
// whatever order they are read. A verification without a holder is not resent.
func TestDecideResendsTheNewest(t *testing.T) {
	old, newest := askGate(1, time.Minute).Verification, askGate(1, time.Minute).Verification
	old.ID, old.CreatedAt, old.ExpiresAt = "old", gateNow.Add(-time.Minute), gateNow.Add(9*time.Minute)
	newest.ID, newest.CreatedAt, newest.ExpiresAt = "newest", gateNow.Add(-time.Second), gateNow.Add(9*time.Minute)
	if d := rowrules.Decide(askGate(1, time.Minute), gateNow,
		rowrules.RecipientHistory{Candidates: []store.Verification{old, newest, old}}); d.Verification.ID != "newest" {
		t.Errorf("joined %q", d.Verification.ID)
	}
	named := func(in *store.Intent) { in.Join = "old" }
	if d := rowrules.Decide(askGate(1, time.Minute, named), gateNow,
		rowrules.RecipientHistory{Candidates: []store.Verification{newest, old}}); d.Verification.ID != "old" {
		t.Errorf("joined %q, want the named one", d.Verification.ID)
	}
	old.Holder = ""
	none := func(in *store.Intent) { in.Verification.Holder = "" }
	if d := rowrules.Decide(askGate(1, time.Minute, none), gateNow,
		rowrules.RecipientHistory{Candidates: []store.Verification{old}}); d.Joined {
		t.Error("a verification without a holder was joined")
	}
}

// The history of an answer is oldest first, in whatever order the rows are read.
func TestDecideReturnsTheOldestFirst(t *testing.T) {
	var rows []rowrules.PastSend
	for _, age := range []time.Duration{2, 3, 1} {
		rows = append(rows, rowrules.PastSend{ID: uuid.UUID{byte(age)}, At: gateNow.Add(-age * time.Second)})
	}
	history := rowrules.Decide(askGate(9, time.Minute), gateNow, rowrules.RecipientHistory{Past: rows}).History
	if !slices.IsSortedFunc(history, func(a, b quota.Event) int { return a.At.Compare(b.At) }) || len(history) != len(rows) {
		t.Errorf("history: %v", history)
	}
}
