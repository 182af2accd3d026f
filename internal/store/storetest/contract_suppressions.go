package storetest

import (
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// Address returns the hash of spelling n of an address.
func Address(n byte) recipient.Hash { return recipient.Hash{0: 0xad, 15: n} }

func to(n byte) func(*store.Intent) { return func(in *store.Intent) { in.Address = Address(n) } }

func (f *Fixture) suppress(t *testing.T, n byte, lasts time.Duration, changes ...func(*store.Suppression)) store.Suppression {
	t.Helper()
	f.Serial++
	s := store.Suppression{
		ID: uuid.UUID{5: byte(f.Serial), 6: 0x70, 8: 0x80}, Channel: recipient.Email, Address: Address(n), Recipient: recipient.Hash{15: n},
		To: "a•••@example.com", Cause: store.CauseManual, Detail: "asked by telephone", By: "ops",
	}
	for _, change := range changes {
		change(&s)
	}
	got, added := must2(f.Suppress(t.Context(), s, lasts, nil))(t)
	Equal(t, "added", added, true)
	s.Since, s.Until = f.Now, f.Now.Add(lasts)
	Equal(t, "suppression", got, s)
	return got
}

func (f *Fixture) suppressions(t *testing.T, filter store.SuppressionFilter) []store.Suppression {
	t.Helper()
	if filter.Limit == 0 {
		filter.Limit = store.MaxPageRows
	}
	list, now := must2(f.Suppressions(t.Context(), filter))(t)
	Equal(t, "clock", now, f.Now)
	return list
}

// admitSuppressed begins a send, which must be admitted with the suppression want (Nil: none).
func (f *Fixture) admitSuppressed(t *testing.T, want uuid.UUID, changes ...func(*store.Intent)) store.Send {
	t.Helper()
	begun := f.Admit(t, f.Intent(1, changes...))
	Equal(t, "suppression met", begun.Send.Suppression, want)
	Equal(t, "row", f.Row(t, begun.Send.ID), RowOf(begun.Send))
	return begun.Send
}

// bounceSuppresses checks that an outcome with Suppress adds a suppression together with the
// outcome.
func bounceSuppresses(t *testing.T, f *Fixture) {
	begun := f.Admit(t, f.Intent(7, to(1)))
	f.Pass(time.Second)
	o := store.Outcome{
		AttemptID: Held(begun.Send.ID, 2), Status: store.Failed, Reason: store.ReasonRejected, Refund: true, Provider: "mx",
		ProviderCode: "550 5.1.1",
		Suppress:     store.NewSuppression{Cause: store.CauseHardBounce, Address: Address(1), For: 2*time.Hour + 3},
	}
	f.MustFinish(t, o, false) // another attempt holds it
	Equal(t, "suppressions", len(f.suppressions(t, store.SuppressionFilter{})), 0)
	o.Attempt = 1
	f.MustFinish(t, o, true)
	want := store.Suppression{
		ID: store.SuppressionID(begun.Send.ID, store.CauseHardBounce), App: "shop", Channel: recipient.Email, Address: Address(1),
		Recipient: begun.Send.Recipient,
		To:        "a•••@example.com", Cause: store.CauseHardBounce, Detail: "550 5.1.1", Send: begun.Send.ID, Since: f.Now,
		Until: f.Now.Add(2 * time.Hour), Server: "mx",
	}
	Equal(t, "suppressions", f.suppressions(t, store.SuppressionFilter{}), []store.Suppression{want})
	Equal(t, "ended", f.Row(t, begun.Send.ID).Status, store.Failed)
	Equal(t, "story", Must(f.SendDetails(t.Context(), begun.Send.ID))(t).Suppressions, []store.Suppression{want})
	f.admitSuppressed(t, want.ID, to(1))
	f.admitSuppressed(t, uuid.Nil, to(2)) // another spelling of what may be one mailbox
	f.admitSuppressed(t, uuid.Nil, to(1), func(in *store.Intent) { in.Send.App = "desk" })
	f.MustFinish(t, o, false)

	// A second suppression with the same ID, such as by a provider's report on the same send, adds
	// no row, and the first one stays lifted.
	lifted := Must(f.LiftSuppressions(t.Context(),
		store.LiftSuppressionsRequest{Channel: recipient.Email, Address: Address(1), By: "ops", Why: "fixed"}, nil))(t)
	got, added := must2(f.Suppress(t.Context(),
		store.Suppression{ID: want.ID, Channel: recipient.Email, Address: Address(1), Cause: store.CauseHardBounce}, time.Hour, nil))(t)
	want.LiftedAt, want.LiftedBy, want.LiftedWhy = f.Now, "ops", "fixed"
	Equal(t, "added", added, false)
	Equal(t, "lifted, and as it is", append(lifted, got), []store.Suppression{want, want})
	f.admitSuppressed(t, uuid.Nil, to(1))

	// The end of a send does not replace a suppression that an event of the send had caused.
	early := f.Admit(t, f.Intent(8, to(3)))
	o.AttemptID, o.Suppress.Address = Held(early.Send.ID, 1), Address(3)
	f.ingest(t, true, store.ProviderEvent{Send: early.Send.ID, Kind: store.ProviderBounced, Provider: "p"}, o.Suppress)
	lift := store.LiftSuppressionsRequest{Channel: recipient.Email, Address: Address(3), By: "ops", Why: "fixed"}
	Equal(t, "lifted", len(Must(f.LiftSuppressions(t.Context(), lift, nil))(t)), 1)
	f.MustFinish(t, o, true)
	f.admitSuppressed(t, uuid.Nil, to(3))
}

func suppressionList(t *testing.T, f *Fixture) {
	old := f.suppress(t, 1, time.Minute)
	f.Pass(time.Minute)
	a, b := f.suppress(t, 1, time.Hour), f.suppress(t, 2, time.Hour)
	for name, x := range map[string]struct {
		filter store.SuppressionFilter
		want   []store.Suppression
	}{
		"all":           {store.SuppressionFilter{}, []store.Suppression{b, a, old}},
		"active":        {store.SuppressionFilter{Active: true}, []store.Suppression{b, a}},
		"one recipient": {store.SuppressionFilter{Recipient: &recipient.Hash{15: 1}}, []store.Suppression{a, old}},
		"second page":   {store.SuppressionFilter{Limit: 2, Before: &store.Cursor{At: b.Since, ID: b.ID}}, []store.Suppression{a, old}},
	} {
		Equal(t, name, f.suppressions(t, x.filter), x.want)
	}
	for _, app := range []string{"shop", ""} { // the suppressions of this app, then those of all apps
		lifted := Must(f.LiftSuppressions(t.Context(),
			store.LiftSuppressionsRequest{Channel: recipient.Email, Address: a.Address, App: app},
			nil))(t)
		Equal(t, "lifted", len(lifted), map[string]int{"": 1}[app])
	}
}

// suppressionEnds checks that a suppression stops messages, is listed and can be lifted until the
// microsecond of its end. If there are several, a send names the one that ends last.
func suppressionEnds(t *testing.T, f *Fixture) {
	s := f.suppress(t, 1, time.Hour)
	f.suppress(t, 1, time.Minute)
	f.admitSuppressed(t, s.ID, to(1))
	lift := store.LiftSuppressionsRequest{Channel: recipient.Email, Address: Address(1), By: "ops", Why: "asked"}
	f.Pass(time.Hour - time.Microsecond)
	f.admitSuppressed(t, s.ID, to(1))
	Equal(t, "active before its end", f.suppressions(t, store.SuppressionFilter{Active: true}), []store.Suppression{s})
	f.Pass(time.Microsecond)
	f.admitSuppressed(t, uuid.Nil, to(1))
	Equal(t, "active at its end", len(f.suppressions(t, store.SuppressionFilter{Active: true})), 0)
	Equal(t, "lifted at its end", len(Must(f.LiftSuppressions(t.Context(), lift, nil))(t)), 0)
	f.Pass(-time.Microsecond)
	Equal(t, "lifted before its end", len(Must(f.LiftSuppressions(t.Context(), lift, nil))(t)), 1)
}

// suppressionActs checks that an audit entry and its change are written together: if the entry is
// invalid, nothing changes.
func suppressionActs(t *testing.T, f *Fixture) {
	act := func(n byte, what string) *store.AuditEntry {
		return &store.AuditEntry{
			ID: uuid.UUID{1, n, 6: 0x70, 8: 0x80}, Who: "mei", Role: "operator", What: what, Channel: recipient.Email,
			Reason: "asked", Outcome: store.AuditDone,
		}
	}
	add := act(1, "suppression.add")
	add.Recipient, add.To = recipient.Hash{15: 1}, "a•••@example.com"
	s := store.Suppression{
		ID: uuid.UUID{1}, Channel: recipient.Email, Address: Address(1), Recipient: recipient.Hash{15: 1},
		To: "a•••@example.com", Cause: store.CauseManual, By: "mei",
	}
	must2(f.Suppress(t.Context(), s, time.Hour, add))(t)
	f.Pass(time.Second)
	lifted := Must(f.LiftSuppressions(t.Context(),
		store.LiftSuppressionsRequest{Channel: recipient.Email, Address: Address(1), By: "mei", Why: "asked"},
		act(2, "suppression.lift")))(t)
	Equal(t, "lifted", len(lifted), 1)
	f.Pass(time.Second)
	Must(f.LiftSuppressions(t.Context(), store.LiftSuppressionsRequest{Channel: recipient.Email, Address: Address(1)},
		act(3, "suppression.lift")))(t)

	list := Must(f.AuditEntries(t.Context(), store.AuditFilter{Limit: 10}))(t)
	none, lift := *act(3, "suppression.lift"), *act(2, "suppression.lift")
	none.At, none.Detail = f.Now, "0"
	lift.At, lift.Detail, lift.Recipient, lift.To = f.Now.Add(-time.Second), "1", recipient.Hash{15: 1}, "a•••@example.com"
	add.At = f.Now.Add(-2 * time.Second)
	Equal(t, "acts", list, []store.AuditEntry{none, lift, *add})

	bad := act(4, "")
	Is(t, err2(f.Suppress(t.Context(), store.Suppression{
		ID: uuid.UUID{2}, Channel: recipient.Email, Address: Address(2),
		Cause: store.CauseManual,
	}, time.Hour, bad)), store.ErrBadRequest)
	Is(t, Err(f.LiftSuppressions(t.Context(), store.LiftSuppressionsRequest{Channel: recipient.Email, Address: Address(1)}, bad)),
		store.ErrBadRequest)
	Equal(t, "suppressions", len(f.suppressions(t, store.SuppressionFilter{})), 1)
}

// person returns the intent of a mail to person n, whose address has one spelling.
func (f *Fixture) person(n int) store.Intent {
	in := f.Intent(n)
	in.Address = recipient.Hash{0: 0xad, 14: byte(n >> 8), 15: byte(n)}
	return in
}

// refusedAs returns the outcome of a mail to recipient n that the server refused with words: the
// mailbox does not exist.
func refusedAs(n int, words string) store.Outcome {
	return store.Outcome{
		Status: store.Failed, Reason: store.ReasonRejected, Refund: true, Provider: "mx", ProviderCode: "550 5.1.1",
		Suppress: store.NewSuppression{
			Cause: store.CauseHardBounce, For: 30 * 24 * time.Hour, Words: words,
			Address: recipient.Hash{0: 0xad, 14: byte(n >> 8), 15: byte(n)},
		},
	}
}

var acceptedByMX = store.Outcome{Status: store.Sent, Provider: "mx", ProviderCode: "250"}

// rejectMails sends a mail to each of n persons on both replicas at once. The numbers of the
// persons begin at first. The server refuses each mail with words.
func (f *Fixture) rejectMails(t *testing.T, first, n int, words string, changes ...func(*store.Intent)) {
	t.Helper()
	begun := f.admitAll(t, n, func(i int) store.Intent {
		in := f.person(first + i)
		for _, change := range changes {
			change(&in)
		}
		return in
	})
	f.endAll(t, begun, func(i int) store.Outcome { return refusedAs(first+i, words) })
}

// inForce counts the suppressions that stop messages now.
func (f *Fixture) inForce(t *testing.T) (n int) {
	t.Helper()
	for before := (*store.Cursor)(nil); ; {
		list := f.suppressions(t, store.SuppressionFilter{Active: true, Before: before})
		for _, s := range list {
			if s.Active(f.Now) {
				n++
			}
		}
		if len(list) < store.MaxPageRows {
			return n
		}
		before = &store.Cursor{At: list[len(list)-1].Since, ID: list[len(list)-1].ID}
	}
}

// settle calls SettleSuppressions. Like the job, it tries again if the database takes too long,
// which happens beside other tests.
func (f *Fixture) settle(t *testing.T) {
	t.Helper()
	err := f.SettleSuppressions(t.Context())
	for tries := 1; errors.Is(err, fault.Unavailable) && tries < 10; tries++ {
		err = f.SettleSuppressions(t.Context())
	}
	OK(t, err)
}

// evidenceInAnyOrder checks that the order of facts about an address does not matter. The letters
// of an order mean: a: server a takes the first mail of a code; b: server b takes the second; A, B:
// these mails bounce; r: server b refuses the second mail; q: server a refuses it; c: server a
// takes it; d: the first mail is delivered; e: the code is entered.
func evidenceInAnyOrder(t *testing.T, f *Fixture) {
	suppressed := map[string]bool{
		"aA": true, "adA": true, "r": true, "q": true, "aq": true, "acA": true, "aAr": true, "abAB": true,
		"ar": false, "adr": false, "abA": false, "abB": false, "e": false, "aAe": false, "re": false, "qe": false, "aqe": false,
		"are": false, "aAre": false, "abAe": false,
	}
	type story struct {
		events string
		to     recipient.Hash
	}
	var stories []story
	for set := range suppressed {
		for order := range permutations(set) {
			n := len(stories) + 1
			in, refused := f.person(n), refusedAs(n, strconv.Itoa(n))
			first := f.Admit(t, in)
			again := f.person(n)
			again.Join = first.Verification.ID
			second := f.Admit(t, again)
			took := func(send store.Send, server string) {
				f.End(t, send.ID, store.Outcome{Status: store.Sent, Provider: server, ProviderCode: "250"})
			}
			refuses := func(server string) {
				refused.Provider = server
				f.End(t, second.Send.ID, refused)
			}
			hears := func(send store.Send, kind store.ProviderEventKind, suppress ...store.NewSuppression) {
				f.ingest(t, true, store.ProviderEvent{Send: send.ID, Kind: kind, Provider: "p"}, suppress...)
			}
			for _, event := range order {
				switch event {
				case 'a':
					took(first.Send, "a")
				case 'b':
					took(second.Send, "b")
				case 'c':
					took(second.Send, "a")
				case 'r':
					refuses("b")
				case 'q':
					refuses("a")
				case 'A':
					hears(first.Send, store.ProviderBounced, refused.Suppress)
				case 'B':
					hears(second.Send, store.ProviderBounced, refused.Suppress)
				case 'd':
					hears(first.Send, store.ProviderDelivered)
				case 'e':
					f.approve(t, first.Verification.ID)
				}
			}
			stories = append(stories, story{set + " as " + order, in.Send.Recipient})
		}
	}
	f.settle(t)
	for _, s := range stories {
		set, _, _ := strings.Cut(s.events, " ")
		holds := slices.ContainsFunc(f.suppressions(t, store.SuppressionFilter{Recipient: &s.to}),
			func(x store.Suppression) bool { return x.Active(f.Now) })
		Equal(t, s.events, holds, suppressed[set])
	}
}

func permutations(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if text == "" {
			yield("")
		}
		for i := range text {
			for rest := range permutations(text[:i] + text[i+1:]) {
				if !yield(text[i:i+1] + rest) {
					return
				}
			}
		}
	}
}

// approvalLifts checks that an approval, or a caller's report of one, lifts at once the suppression
// that a bounce of the same code caused. Suppressions after a complaint or an opt-out stay.
func approvalLifts(t *testing.T, f *Fixture) {
	causes := []store.SuppressionCause{store.CauseHardBounce, store.CauseComplaint, store.CauseOptOut}
	begun := f.Ended(t, f.person(1), acceptedByMX)
	for i, kind := range []store.ProviderEventKind{store.ProviderBounced, store.ProviderComplained, store.ProviderOptedOut} {
		f.ingest(t, true, store.ProviderEvent{Send: begun.Send.ID, Kind: kind, Provider: "p"},
			store.NewSuppression{Cause: causes[i], For: time.Hour, Address: f.person(1).Address})
	}
	caller := f.Intent(2, func(in *store.Intent) {
		in.Verification.CallerChecks, in.Verification.Reported, in.Code = true, store.ReportDue, []byte("sealed")
	})
	reported := f.Ended(t, caller, acceptedByMX)
	f.ingest(t, true, store.ProviderEvent{Send: reported.Send.ID, Kind: store.ProviderBounced, Provider: "p"}, refusedAs(2, "").Suppress)
	Equal(t, "in force", f.inForce(t), 4)
	f.approve(t, begun.Verification.ID)
	Equal(t, "in force once it was entered", f.inForce(t), 3)
	f.report(t, reported.Verification.ID, store.ReportApproved)
	Equal(t, "in force once the other was reported", f.inForce(t), 2)
	of := begun.Send.Recipient
	for _, s := range f.suppressions(t, store.SuppressionFilter{Recipient: &of}) {
		Equal(t, string(s.Cause), s.LiftedWhy, map[bool]string{true: store.LiftedAccepted}[s.Cause == store.CauseHardBounce])
	}
}

// burstIsNotBelieved checks a burst: if one server refuses more than five addresses within ten
// minutes with the same words, none is suppressed, and the first five suppressions are lifted. Each
// class of callers has bursts of its own. LiftedBursts returns a burst only if one of its
// recipients has entered a code.
func burstIsNotBelieved(t *testing.T, f *Fixture) {
	const words = "550 5.1.1 unknown"
	stranger := func(in *store.Intent) { in.Verification.Class = store.StrangerClass }
	f.suppress(t, 101, 24*time.Hour)
	f.rejectMails(t, 1000, 1, words)
	f.Pass(store.BurstWindow)
	f.approve(t, f.Ended(t, f.person(3), acceptedByMX).Verification.ID)
	f.rejectMails(t, 1, 5, words)
	f.rejectMails(t, 1001, 1, "550 5.1.1 no such user")
	f.rejectMails(t, 2000, 6, words, stranger)
	f.settle(t)
	Equal(t, "in force: by hand, before, other words, five", f.inForce(t), 8)
	Equal(t, "told: strangers alone", len(Must(f.LiftedBursts(t.Context()))(t)), 0)
	f.rejectMails(t, 6, 45, words)
	Equal(t, "in force: by hand, before, other words", f.inForce(t), 3)
	Equal(t, "told", Must(f.LiftedBursts(t.Context()))(t), []store.Burst{{Server: "mx", Words: words, Recipients: 56}})
	f.Pass(store.BurstReportedFor)
	f.settle(t)
	Equal(t, "in force, later", f.inForce(t), 3)
	Equal(t, "told, later", len(Must(f.LiftedBursts(t.Context()))(t)), 0)
	of := f.person(7).Send.Recipient
	Equal(t, "why", f.suppressions(t, store.SuppressionFilter{Recipient: &of})[0].LiftedWhy, store.LiftedBurst)
	f.rejectMails(t, 7, 1, words)
	Equal(t, "in force: one of them again", f.inForce(t), 4)
}
