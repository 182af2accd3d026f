package storetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// Refusal returns a refusal of recipient n.
func (f *Fixture) Refusal(n int, change func(*store.SendOrRefusal)) store.SendOrRefusal {
	s := store.SendOrRefusal{Send: f.Intent(n).Send, Refusal: store.Refusal{BlockedBy: "minute", RetryAfter: 40 * time.Second, Count: 1}}
	s.Status = store.Refused
	if change != nil {
		change(&s)
	}
	return s
}

func refusalsAddUp(t *testing.T, f *Fixture) {
	a := f.Refusal(1, func(s *store.SendOrRefusal) {
		s.VerificationID = "v-named"
		// a refusal has none of these
		s.Attempt, s.Counts, s.Number, s.Reason, s.RefundDue, s.Status = 3, true, 2, "x", true, store.Sent
	})
	b := f.Refusal(2, func(s *store.SendOrRefusal) { s.Count = 0 })
	OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{b, a, a}))
	first := f.Now
	f.Pass(time.Second)
	a.RetryAfter, a.Count, a.BlockedBy, a.To = 30*time.Second+1, 5, "other", "changed"
	OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{a}))
	OK(t, f.RecordRefusals(t.Context(), nil))

	want := store.SendOrRefusal{
		Send: store.Send{
			ID: a.ID, VerificationID: "v-named", App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: a.Recipient,
			To: "a•••@example.com", Locale: "en", Network: "192.0.2.0/24", Status: store.Refused, LoggedAt: first, FinishedAt: first,
		},
		Refusal: store.Refusal{BlockedBy: "minute", RetryAfter: 30 * time.Second, Count: 7},
	}
	Equal(t, "row", f.Row(t, a.ID), want)
	Equal(t, "requests of another row", f.Row(t, b.ID).Count, 1)
	admitted := f.Admit(t, f.Intent(1, WithRules(Rule(1, time.Hour)))) // refusals take no place
	Equal(t, "without refusals", IDs(Must(f.Sends(t.Context(), store.Filter{Recipient: &a.Recipient, SendsOnly: true, Limit: 10}))(t)),
		[]uuid.UUID{admitted.Send.ID})
	Equal(t, "no refusal", len(Must(f.Sends(t.Context(), store.Filter{Status: store.Refused, SendsOnly: true, Limit: 10}))(t)), 0)
}

// codeStates checks that sends are found by the state of their codes, and by the network and the
// request of the client.
func codeStates(t *testing.T, f *Fixture) {
	states := []store.CodeState{
		store.CodeEntered, store.CodeCanceled, store.CodeUsedUp, store.CodeExpired,
		store.CodeOfCaller, store.CodeWaiting,
	}
	var sends []uuid.UUID
	codes := []string{"unknown"}
	for n, state := range states {
		if state == store.CodeWaiting {
			f.Pass(10 * time.Minute) // to the instant at which the other codes expire
		}
		b := f.Admit(t, f.Intent(n, func(in *store.Intent) {
			in.Verification.MaxAttempts, in.Send.Network, in.Send.RequestID = 1, fmt.Sprintf("192.0.2.%d/32", n), fmt.Sprint("request", n)
			if state == store.CodeOfCaller {
				withCode("sealed")(in)
			}
		}))
		switch state {
		case store.CodeEntered:
			f.approve(t, b.Verification.ID)
		case store.CodeCanceled:
			cancel(t, f, b.Verification.ID)
		case store.CodeUsedUp:
			useTries(t, f, b.Verification.ID, 1)
		}
		sends, codes = append(sends, b.Send.ID), append(codes, b.Verification.ID)
	}
	late := f.Admit(t, f.Intent(9, withCode("sealed"))).Send.ID // has CodeOfCaller although it has not expired
	for n, state := range states {
		for _, filter := range []store.Filter{
			{Outcome: state},
			{Network: fmt.Sprintf("192.0.2.%d/32", n)},
			{Request: fmt.Sprint("request", n)},
		} {
			filter.From, filter.Limit = Epoch.Add(-time.Hour), 10
			want := sends[n : n+1]
			if filter.Outcome == store.CodeOfCaller {
				want = []uuid.UUID{late, sends[n]}
			}
			Equal(t, string(state), IDs(Must(f.Sends(t.Context(), filter))(t)), want)
		}
	}
	got, now := must2(f.VerificationsByID(t.Context(), codes))(t)
	Equal(t, "codes, clock", []any{len(got), now}, []any{6, f.Now})
}

func manyRefusals(t *testing.T, f *Fixture) {
	rows := make([]store.SendOrRefusal, 250)
	for i := range rows {
		rows[i] = f.Refusal(i, nil)
	}
	f.atOnce(t, 6, func(db *sqldb.DB, i int) (bool, error) {
		return true, db.RecordRefusals(t.Context(), append(slices.Clone(rows[i*40:]), rows[:i*40]...))
	})
	all := f.All(t)
	Equal(t, "rows", len(all), 250)
	for _, r := range all {
		Equal(t, "requests of a row", r.Count, 6)
	}
}

func story(t *testing.T, f *Fixture) {
	Is(t, Err(f.SendDetails(t.Context(), uuid.UUID{1})), fault.NotFound)
	say := func(n int, change func(*store.SendOrRefusal)) store.SendOrRefusal {
		r := f.Refusal(n, change)
		OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{r}))
		f.Pass(time.Second)
		return f.Row(t, r.ID)
	}
	say(1, nil) // before the verification
	first := f.Admit(t, f.Intent(1))
	v := first.Verification
	atOnce := say(1, nil) // at the same instant as first
	say(2, nil)           // another recipient
	say(1, func(s *store.SendOrRefusal) { s.App = "other" })
	say(1, func(s *store.SendOrRefusal) { s.Channel = recipient.SMS })
	during := say(1, func(s *store.SendOrRefusal) { s.Purpose = "signup" })
	second := f.Admit(t, f.Intent(1, Joining(v.ID), func(in *store.Intent) {
		for _, label := range in.Send.LabelColumns() {
			*label.Field.(*string) = "order 8"
		}
	}))
	f.Admit(t, f.Intent(1)) // another verification's
	f.Pass(v.ExpiresAt.Sub(f.Now) - time.Microsecond)
	last := say(1, nil)
	f.Pass(v.ExpiresAt.Sub(f.Now))
	late := say(1, func(s *store.SendOrRefusal) { s.VerificationID = v.ID }) // after its life

	got := Must(f.SendDetails(t.Context(), first.Send.ID))(t)
	want := []store.SendOrRefusal{RowOf(first.Send), atOnce, during, RowOf(second.Send), last}
	slices.SortFunc(want, func(a, b store.SendOrRefusal) int {
		return cmp.Or(a.LoggedAt.Compare(b.LoggedAt), slices.Compare(a.ID[:], b.ID[:]))
	})
	Equal(t, "related", got.Related, want)
	Equal(t, "send", got.Send, RowOf(first.Send))
	Equal(t, "verification", *got.Verification, second.Verification)
	Equal(t, "its newest reference", got.Verification.Reference, "order 8")
	Equal(t, "clock", got.Now, f.Now)

	Equal(t, "verification named by a refusal", Must(f.SendDetails(t.Context(), late.ID))(t).Verification.ID, v.ID)
	got = Must(f.SendDetails(t.Context(), during.ID))(t)
	Equal(t, "related to a refusal that belongs to none", len(got.Related), 0)
	Equal(t, "a refusal that belongs to none has none", got.Verification == nil, true)
}

// hostileTexts checks that a read with any text as an ID finds no row, without a failure: the ID
// may come from a URL.
func hostileTexts(t *testing.T, f *Fixture) {
	for _, id := range []string{"", "\x00", "a\xff", "' OR ''='", "%s", string(make([]byte, 100_000))} {
		Is(t, err3(f.Verification(t.Context(), id)), fault.NotFound)
		Is(t, err2(f.VerificationRow(t.Context(), id)), fault.NotFound)
		Is(t, Err(f.Check(t.Context(), Wrong(id))), fault.NotFound)
	}
	// The longest texts fit into every index, even if they can't be compressed.
	long := func(in *store.Intent) {
		text := func() string {
			b := make([]byte, store.MaxTextBytes*3/4)
			_, _ = rand.Read(b)
			return base64.StdEncoding.EncodeToString(b)
		}
		in.Send.App, in.Send.Channel, in.Send.Purpose, in.Send.Reference = text(), recipient.Channel(text()), text(), text()
		in.Purposes, in.Verification.ID, in.Verification.Holder = []string{in.Send.Purpose}, text(), text()
	}
	Equal(t, "length", len(f.Admit(t, f.Intent(1, long)).Send.App), store.MaxTextBytes)
	OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{f.Refusal(1, func(s *store.SendOrRefusal) {
		s.Locale, s.VerificationID = strings.Repeat("ü", store.MaxTextBytes), strings.Repeat("a\x00", store.MaxTextBytes)
	})}))
	got := Must(f.Sends(t.Context(), store.Filter{Limit: 1, Status: store.Refused}))(t)
	Equal(t, "refusals with repaired texts", len(got), 1)
	Equal(t, "repaired text", got[0].Locale, strings.Repeat("ü", store.MaxTextBytes/2))

	none, _ := must2(f.SendsByID(t.Context(), make([]uuid.UUID, 1000)))(t)
	Equal(t, "rows that there are not", len(none), 0)

	text := `'";--\ $1 ? %d 😀 ` + "\n\t\u202e"
	in := f.Intent(1, func(in *store.Intent) {
		in.Send.Reference, in.Send.Locale, in.Send.Network, in.Send.To, in.Send.App = text, text, text, text, text
		in.Send.Purpose, in.Purposes = text, []string{"a,b", "{x}", text}
		in.Verification.Holder, in.Verification.KeyID, in.Verification.Sealed = text, text, nil
	}, WithRules(Rule(1, time.Hour)))
	begun := f.Admit(t, in)
	Equal(t, "row", f.Row(t, in.Send.ID), RowOf(begun.Send))
	Equal(t, "text", begun.Send.Reference, text)
	Equal(t, "verification", f.Code(t, in.Verification.ID), begun.Verification)
	again := in
	again.Send.ID[15]++
	again.Verification.ID += text
	f.Refuse(t, again)
}

func callsAfterCancelAndClose(t *testing.T, f *Fixture) {
	OK(t, f.Ping(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Certain(t, Err(f.Begin(ctx, f.Intent(1))))
	Is(t, Err(f.Sends(ctx, store.Filter{Limit: 1})), fault.Unavailable)
	Equal(t, "rows", len(f.All(t)), 0)

	OK(t, f.Close())
	for name, call := range map[string]func() error{
		"a batch": func() error { _, err := f.Begin(t.Context(), f.Intent(1)); return err },
		"an end":  func() error { _, err := f.Finish(t.Context(), Sent); return err },
		"a write": func() error { _, err := f.Cancel(t.Context(), "x"); return err },
		"a list":  func() error { return f.RecordRefusals(t.Context(), []store.SendOrRefusal{f.Refusal(1, nil)}) },
		"a read":  func() error { _, err := f.Sends(t.Context(), store.Filter{Limit: 1}); return err },
		"Ping":    func() error { return f.Ping(t.Context()) },
	} {
		if err := call(); !errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Uncertain) {
			t.Errorf("%s on a closed database: %v", name, err)
		}
	}
}

// findBySupportReference checks that a reference finds the sends and refusals of its second, oldest
// first, and no others.
func findBySupportReference(t *testing.T, f *Fixture) {
	at := func(ms int64, tail byte) func(*store.Intent) {
		return func(in *store.Intent) {
			binary.BigEndian.PutUint64(in.Send.ID[:], uint64(ms)<<16|0x7000|uint64(tail)<<4)
			in.Send.ID[15] = tail
		}
	}
	second := (Epoch.Unix() + 1) * 1000
	f.Admit(t, f.Intent(1, at(second-1, 7)))
	one := f.Admit(t, f.Intent(2, at(second, 7)))
	f.Admit(t, f.Intent(3, at(second+1, 8)))
	two := f.Admit(t, f.Intent(4, at(second+999, 7)))
	f.Admit(t, f.Intent(5, at(second+1000, 7)))
	refused := f.Refusal(6, func(s *store.SendOrRefusal) { s.ID = one.Send.ID; s.ID[5], s.ID[7] = s.ID[5]+9, 1 })
	OK(t, f.RecordRefusals(t.Context(), []store.SendOrRefusal{refused}))

	text, want := store.SupportReference(one.Send.ID), []uuid.UUID{one.Send.ID, refused.ID, two.Send.ID}
	rows := Must(f.SendsBySupportReference(t.Context(), text))(t)
	Equal(t, text, IDs(rows), want)
	Equal(t, "row", rows[0], f.Row(t, one.Send.ID))
	Equal(t, "of no reference", len(Must(f.SendsBySupportReference(t.Context(), "order 7"))(t)), 0)
	odd := f.Admit(t, f.Intent(7, func(in *store.Intent) {
		at(second+5, 7)(in)
		in.Send.ID[14] = 0x81
	}))
	for id, want := range map[uuid.UUID][]uuid.UUID{one.Send.ID: reversed(want), odd.Send.ID: {odd.Send.ID}} {
		filter := store.Filter{Support: store.SupportReference(id), App: "shop", Limit: 10}
		Equal(t, "filtered", IDs(Must(f.Sends(t.Context(), filter))(t)), want)
	}
}
