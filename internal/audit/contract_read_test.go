package audit

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

func (f *fixture) refusal(n int, change func(*Send)) Send {
	s := f.intent(n).Send
	s.Status, s.BlockedBy, s.RetryAfter, s.Count = Refused, "minute", 40*time.Second, 1
	if change != nil {
		change(&s)
	}
	return s
}

func refusalsAddUp(t *testing.T, f *fixture) {
	a := f.refusal(1, func(s *Send) {
		s.Clock, s.TakenAt, s.VerificationID = "redis", epoch.Add(-time.Hour), "v-named"
		s.Attempt, s.Counts, s.Number, s.Reason, s.RefundDue, s.Status = 3, true, 2, "x", true, Sent // none of it belongs on a refusal
	})
	b := f.refusal(2, func(s *Send) { s.Count = 0; s.Clock = "redis" }) // no instant: the log's
	ok(t, f.Refused(t.Context(), []Send{b, a, a}))
	first := f.now
	f.pass(time.Second)
	a.RetryAfter, a.Count, a.BlockedBy, a.To = 30*time.Second+1, 5, "other", "changed"
	ok(t, f.Refused(t.Context(), []Send{a}))
	ok(t, f.Refused(t.Context(), nil))

	want := Send{
		ID: a.ID, VerificationID: "v-named", App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: a.Recipient,
		To: "a•••@example.com", Locale: "en", Reference: "order 7", IP: "192.0.2.0/24", Status: Refused,
		TakenAt: epoch.Add(-time.Hour), Clock: "redis", LoggedAt: first, FinishedAt: first, BlockedBy: "minute",
		RetryAfter: 30 * time.Second, Count: 7,
	}
	equal(t, "row", f.row(t, a.ID), want)
	row := f.row(t, b.ID)
	equal(t, "clock", row.Clock, LogClock)
	equal(t, "taken at", row.TakenAt, first)
	equal(t, "count", row.Count, 1)
	f.admit(t, f.intent(1, withRules(rule(1, time.Hour)))) // refusals take no place
	for _, bad := range []func(*Send){
		func(s *Send) { s.ID = uuid.Nil }, func(s *Send) { s.App = "" }, func(s *Send) { s.Count = -1 }, func(s *Send) { s.RetryAfter = -1 },
	} {
		is(t, f.Refused(t.Context(), []Send{f.refusal(1, bad)}), ErrBadRequest)
	}
}

func refusalTouchesNoSend(t *testing.T, f *fixture) {
	begun := f.admit(t, f.intent(1))
	r := f.refusal(2, func(s *Send) { s.ID = begun.Send.ID })
	fresh := f.refusal(2, nil)
	ok(t, f.Refused(t.Context(), []Send{r, fresh}))
	equal(t, "row", f.row(t, begun.Send.ID), begun.Send)
	equal(t, "rows", len(f.all(t)), 2)

	in := f.intent(2)
	in.Send.ID = fresh.ID
	_, err := f.Begin(t.Context(), in)
	is(t, err, ErrBadRequest)
}

func manyRefusals(t *testing.T, f *fixture) {
	rows := make([]Send, 250)
	for i := range rows {
		rows[i] = f.refusal(i, nil)
	}
	together(6, func(i int) {
		shuffled := append(slices.Clone(rows[i*40:]), rows[:i*40]...)
		if err := f.both(i).Refused(t.Context(), shuffled); err != nil {
			t.Error(err)
		}
	})
	all := f.all(t)
	equal(t, "rows", len(all), 250)
	for _, r := range all {
		if r.Count != 6 {
			t.Fatalf("a row counts %d", r.Count)
		}
	}
}

func readVerification(t *testing.T, f *fixture) {
	_, _, _, err := f.Verification(t.Context(), "no such id")
	is(t, err, ErrNotFound)
	first := f.admit(t, f.intent(1))
	id := first.Verification.ID
	f.pass(time.Second)
	second := f.admit(t, f.intent(1, func(in *Intent) { in.Join = id }))
	f.pass(time.Second)
	ok(t, f.Refused(t.Context(), []Send{f.refusal(1, func(s *Send) { s.VerificationID = id })}))
	f.admit(t, f.intent(1))
	v, newest, now, err := f.Verification(t.Context(), id)
	ok(t, err)
	equal(t, "verification", v, second.Verification)
	equal(t, "newest send", newest, second.Send)
	equal(t, "clock", now, f.now)
}

func story(t *testing.T, f *fixture) {
	_, err := f.Story(t.Context(), uuid.UUID{1})
	is(t, err, ErrNotFound)
	say := func(n int, change func(*Send)) Send {
		r := f.refusal(n, change)
		ok(t, f.Refused(t.Context(), []Send{r}))
		f.pass(time.Second)
		return f.row(t, r.ID)
	}
	say(1, nil) // before
	first := f.admit(t, f.intent(1))
	v := first.Verification
	atOnce := say(1, nil) // of its very instant
	say(2, nil)           // another recipient
	say(1, func(s *Send) { s.App = "other" })
	say(1, func(s *Send) { s.Channel = recipient.SMS })
	during := say(1, func(s *Send) { s.Purpose = "signup" })
	second := f.admit(t, f.intent(1, func(in *Intent) { in.Join = v.ID }))
	f.admit(t, f.intent(1)) // another verification's
	f.pass(v.ExpiresAt.Sub(f.now) - time.Microsecond)
	last := say(1, nil)
	f.pass(v.ExpiresAt.Sub(f.now))
	late := say(1, func(s *Send) { s.VerificationID = v.ID }) // after its life

	got, err := f.Story(t.Context(), first.Send.ID)
	ok(t, err)
	want := []Send{first.Send, atOnce, during, second.Send, last}
	slices.SortFunc(want, byLogged)
	equal(t, "related", got.Related, want)
	equal(t, "send", got.Send, first.Send)
	equal(t, "verification", *got.Verification, second.Verification)
	equal(t, "clock", got.Now, f.now)

	got, err = f.Story(t.Context(), late.ID)
	ok(t, err)
	equal(t, "verification named by a refusal", got.Verification.ID, v.ID)
	got, err = f.Story(t.Context(), during.ID)
	ok(t, err)
	equal(t, "related to a refusal that belongs to none", len(got.Related), 0)
	if got.Verification != nil {
		t.Error("a refusal that belongs to none has a verification")
	}
}

func countingSends(t *testing.T, f *fixture) {
	old := f.admit(t, f.intent(1, takenAt("redis", epoch.Add(-time.Hour))))
	f.pass(time.Second)
	other := f.admit(t, f.intent(2, func(in *Intent) { in.Send.Purpose = "signup" }))
	f.pass(time.Second)
	gone := f.admit(t, f.intent(1))
	f.finish(t, Outcome{Held: Held{gone.Send.ID, 1}, Status: Failed, Refund: true}, true)
	failed := f.admit(t, f.intent(3, takenAt("else", epoch)))
	f.finish(t, Outcome{Held: Held{failed.Send.ID, 1}, Status: Unknown}, true)
	ok(t, f.Refused(t.Context(), []Send{f.refusal(1, nil)}))

	list := func(clock string, within time.Duration) []Counting {
		t.Helper()
		var got []Counting
		ok(t, f.Counting(t.Context(), clock, within, func(c Counting) error {
			got = append(got, c)
			_, err := f.Sends(t.Context(), Filter{Limit: 1}) // the log can be used meanwhile
			return err
		}))
		return got
	}
	as := func(s Send, at time.Time, clock string) Counting {
		return Counting{App: s.App, Channel: s.Channel, Purpose: s.Purpose, Recipient: s.Recipient,
			Event: quota.Event{ID: string(s.ID[:]), At: at}, Clock: clock}
	}
	all := []Counting{
		as(old.Send, epoch.Add(-time.Hour), "redis"), as(other.Send, other.Send.LoggedAt, LogClock), as(failed.Send, failed.Send.LoggedAt, LogClock),
	}
	equal(t, "all", list("redis", time.Hour), all)
	equal(t, "younger than 2 s", list("redis", 2*time.Second), all[1:])
	equal(t, "younger than 2 s and 1 µs", len(list("redis", 2*time.Second+time.Microsecond)), 3)
	all[0] = as(old.Send, old.Send.LoggedAt, LogClock)
	equal(t, "on no known clock", list("nobody's", time.Hour), all)

	stop, calls := errors.New("enough"), 0
	err := f.Counting(t.Context(), "redis", time.Hour, func(Counting) error { calls++; return stop })
	if err != stop || calls != 1 {
		t.Errorf("after %d calls: %v", calls, err)
	}
}

// hostileTexts: an ID out of a URL is any text; it is not found, and no failure.
func hostileTexts(t *testing.T, f *fixture) {
	for _, id := range []string{"", "\x00", "a\xff", "' OR ''='", "%s", string(make([]byte, 100_000))} {
		_, _, _, err := f.Verification(t.Context(), id)
		is(t, err, ErrNotFound)
		_, _, _, err = f.Attempt(t.Context(), id)
		is(t, err, ErrNotFound)
		won, err := f.Approve(t.Context(), id, Tell{})
		ok(t, err)
		equal(t, "approved", won, false)
	}
	// The longest texts fit into every index, also where nothing can be compressed.
	long := func(in *Intent) {
		text := func() string {
			b := make([]byte, maxText*3/4)
			_, _ = rand.Read(b)
			return base64.StdEncoding.EncodeToString(b)
		}
		in.Send.App, in.Send.Channel, in.Send.Purpose, in.Send.Reference = text(), recipient.Channel(text()), text(), text()
		in.Purposes, in.Verification.ID, in.Verification.Holder = []string{in.Send.Purpose}, text(), text()
	}
	equal(t, "length", len(f.admit(t, f.intent(1, long)).Send.App), maxText)
	ok(t, f.Refused(t.Context(), []Send{f.refusal(1, func(s *Send) {
		s.Reference, s.VerificationID = strings.Repeat("ü", maxText), strings.Repeat("a\x00", maxText)
	})}))
	got, err := f.Sends(t.Context(), Filter{Limit: 1, Reference: strings.Repeat("ü", maxText/2)})
	ok(t, err)
	equal(t, "mended refusals found", len(got), 1)

	text := `'";--\ $1 ? %d 😀 ` + "\n\t\u202e"
	in := f.intent(1, func(in *Intent) {
		in.Send.Reference, in.Send.Locale, in.Send.IP, in.Send.To, in.Send.App = text, text, text, text, text
		in.Send.Purpose, in.Purposes = text, []string{"a,b", "{x}", text}
		in.Verification.Holder, in.Verification.KeyID, in.Verification.Sealed = text, text, nil
	}, withRules(rule(1, time.Hour)))
	begun := f.admit(t, in)
	equal(t, "row", f.row(t, in.Send.ID), begun.Send)
	equal(t, "text", begun.Send.Reference, text)
	v, _, _, err := f.Verification(t.Context(), in.Verification.ID)
	ok(t, err)
	equal(t, "verification", v, begun.Verification)
	again := in
	again.Send.ID[15]++
	again.Verification.ID += text
	f.refuse(t, again)
}

func closedAndCanceled(t *testing.T, f *fixture) {
	ok(t, f.Ping(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Begin(ctx, f.intent(1))
	is(t, err, ErrUnavailable)
	if errors.Is(err, ErrUncertain) {
		t.Errorf("nothing was asked of the log, yet %v", err)
	}
	_, err = f.Sends(ctx, Filter{Limit: 1})
	is(t, err, ErrUnavailable)
	equal(t, "rows", len(f.all(t)), 0)

	ok(t, f.Close())
	for name, call := range map[string]func() error{
		"Begin":      func() error { _, err := f.Begin(t.Context(), f.intent(1)); return err },
		"Claim":      func() error { _, err := f.Claim(t.Context(), claim(1, f.intent(1))); return err },
		"Release":    func() error { return f.Release(t.Context(), [32]byte{}, uuid.UUID{1}, true) },
		"Renew":      func() error { return f.Renew(t.Context(), time.Second, []Held{{}}) },
		"Finish":     func() error { _, err := f.Finish(t.Context(), Outcome{Status: Sent}); return err },
		"Postpone":   func() error { _, err := f.Postpone(t.Context(), Postponement{}); return err },
		"TakeOver":   func() error { _, err := f.TakeOver(t.Context(), recipient.Email, time.Second, 1); return err },
		"RefundsDue": func() error { _, err := f.RefundsDue(t.Context(), time.Second, 1); return err },
		"Refunded":   func() error { return f.Refunded(t.Context(), Held{}) },
		"Stats": func() error {
			_, err := f.Stats(t.Context(), StatsQuery{From: epoch, To: epoch.Add(time.Hour), Each: time.Hour})
			return err
		},
		"CountHours": func() error { _, err := f.CountHours(t.Context(), time.Hour, 1); return err },
		"Domains": func() error {
			_, err := f.Domains(t.Context(), StatsQuery{From: epoch, To: epoch.Add(time.Hour), Each: time.Hour})
			return err
		},
		"Expire": func() error { _, err := f.Expire(t.Context(), time.Hour, 1); return err },
		"Crowds": func() error {
			_, _, err := f.Crowds(t.Context(), CrowdQuery{Purposes: []string{"x"}, AtLeast: 1, Limit: 1})
			return err
		},
		"Verification": func() error { _, _, _, err := f.Verification(t.Context(), "x"); return err },
		"LockedOut":    func() error { _, err := f.LockedOut(t.Context(), Verification{}); return err },
		"Cancel":       func() error { _, err := f.Cancel(t.Context(), "x"); return err },
		"Newest":       func() error { _, err := f.Newest(t.Context(), Holding{Holder: "x"}); return err },
		"Attempt":      func() error { _, _, _, err := f.Attempt(t.Context(), "x"); return err },
		"Approve":      func() error { _, err := f.Approve(t.Context(), "x", Tell{}); return err },
		"Refused":      func() error { return f.Refused(t.Context(), []Send{f.refusal(1, nil)}) },
		"Sends":        func() error { _, err := f.Sends(t.Context(), Filter{Limit: 1}); return err },
		"Story":        func() error { _, err := f.Story(t.Context(), uuid.UUID{1}); return err },
		"Counting":     func() error { return f.Counting(t.Context(), "", time.Hour, nil) },
		"History": func() error {
			_, _, err := f.History(t.Context(), Bucket{Purposes: []string{"x"}}, time.Hour)
			return err
		},
		"AppEventsDue":    func() error { _, _, err := f.AppEventsDue(t.Context(), time.Second, nil); return err },
		"AppEventEnded":   func() error { _, err := f.AppEventEnded(t.Context(), AppEventEnd{State: EventPending}); return err },
		"ForgetAppEvents": func() error { _, _, err := f.ForgetAppEvents(t.Context(), time.Second, 1); return err },
		"Latest":          func() error { _, err := f.Latest(t.Context(), []recipient.Hash{{1}}, time.Hour); return err },
		"SendsByID":       func() error { _, err := f.SendsByID(t.Context(), []uuid.UUID{{1}}); return err },
		"AppEvents":       func() error { _, err := f.AppEvents(t.Context(), AppEventFilter{Limit: 1}); return err },
		"Ping":            func() error { return f.Ping(t.Context()) },
	} {
		if err := call(); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUncertain) {
			t.Errorf("%s on a closed log: %v", name, err)
		}
	}
}
