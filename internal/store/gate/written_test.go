package gate

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// An admitted intent opens a verification without tries, and its row is that of the first attempt. Both have whole microseconds,
// and bytes of their own.
func TestDecideWritesTheRow(t *testing.T) {
	in := ask(1, time.Minute, func(in *store.Intent) {
		v := &in.Verification
		v.Sealed, v.Nonce = []byte{1}, []byte{2}
		v.Attempts, v.Sends, v.ApprovedAt, v.CanceledAt, v.Forgiven = 3, 3, now, now, 3
		s := &in.Send
		s.Clock, s.TakenAt, s.Observed = "redis-1", now.Add(-time.Second), []string{"office"}
		s.Status, s.Attempt, s.Reason = store.Failed, 7, "none of the caller's"
		in.TTL, in.Lease = 10*time.Minute+999, 8*time.Second+999
	})
	suppression := uuid.UUID{1}
	d := Decide(in, now, Facts{Suppression: suppression})
	v := in.Verification
	v.CreatedAt, v.ExpiresAt = now, now.Add(10*time.Minute)
	v.Attempts, v.Sends, v.ApprovedAt, v.CanceledAt, v.Forgiven = 0, 1, time.Time{}, time.Time{}, 0
	if !reflect.DeepEqual(d.Verification, v) {
		t.Errorf("verification\n%+v, want\n%+v", d.Verification, v)
	}
	s := in.Send
	s.VerificationID, s.Number, s.Status, s.Attempt, s.Counts, s.Reason = "new", 1, store.Sending, 1, true, ""
	s.LoggedAt, s.DueAt, s.Count, s.Suppression = now, now.Add(8*time.Second), 1, suppression
	if !reflect.DeepEqual(d.Send, s) {
		t.Errorf("send\n%+v, want\n%+v", d.Send, s)
	}
	d.Verification.Sealed[0], d.Verification.Nonce[0], d.Send.Observed[0] = 9, 9, "changed"
	if in.Verification.Sealed[0] != 1 || in.Verification.Nonce[0] != 2 || in.Send.Observed[0] != "office" {
		t.Error("the answer shares its bytes with the intent")
	}
}

// Each text that a caller gives of a send is in its row, and is refused where a database cannot hold it.
func TestEveryTextIsCheckedAndWritten(t *testing.T) {
	tried := 0
	for field := range reflect.TypeFor[store.Send]().Fields() {
		if field.Type.Kind() != reflect.String || !strings.Contains(field.Tag.Get("column"), ",send") || slices.Contains([]string{"VerificationID", "Status"}, field.Name) {
			continue
		}
		tried++
		bad := ask(1, time.Minute)
		reflect.ValueOf(&bad.Send).Elem().FieldByIndex(field.Index).SetString("\x00")
		if _, err := store.Checked(bad); !errors.Is(err, store.ErrBadRequest) {
			t.Errorf("%s with a NUL: %v", field.Name, err)
		}
		good := ask(1, time.Minute)
		reflect.ValueOf(&good.Send).Elem().FieldByIndex(field.Index).SetString("text")
		if got := reflect.ValueOf(Decide(good, now, Facts{}).Send).FieldByIndex(field.Index).String(); got != "text" {
			t.Errorf("%s is written as %q", field.Name, got)
		}
	}
	if tried < 9 {
		t.Errorf("%d texts", tried)
	}
}

// A repeated Begin is answered with the row as its first attempt had it, whatever has become of it, and only to who began it.
func TestRepeated(t *testing.T) {
	in := ask(1, time.Minute)
	in.Lease += 999
	first := Decide(in, now, Facts{}).Send
	later := first
	later.Status, later.Attempt, later.InDoubt, later.Counts, later.RefundDue, later.Forgiven = store.Failed, 3, true, false, true, true
	later.Reason, later.Provider, later.ProviderCode, later.Took, later.Afterwards = "rejected", "mx.example", "550", time.Second, "bounced"
	later.DueAt, later.FinishedAt = time.Time{}, now.Add(time.Minute)
	v := store.Verification{ID: "new"}
	got, err := Repeated(in, later, v)
	want := store.Begun{Admitted: true, Repeated: true, Verification: v, Send: first, Now: now, Clock: store.LogClock}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, got, want)
	}
	for name, change := range map[string]func(*store.Send){
		"a refusal":         func(s *store.Send) { s.Status = store.Refused },
		"another app":       func(s *store.Send) { s.App = "desk" },
		"another channel":   func(s *store.Send) { s.Channel = recipient.SMS },
		"another recipient": func(s *store.Send) { s.Recipient = recipient.Hash{2} },
	} {
		row := later
		change(&row)
		if got, err := Repeated(in, row, v); !errors.Is(err, store.ErrBadRequest) || got.Admitted {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}

// A rule of the calendar asks for the limiter's instant, but for no more than a second after the log's.
func TestDecideOnTheDayOfALimitersClock(t *testing.T) {
	midnight := time.Date(2030, 3, 2, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		log, limiter time.Duration // after midnight
		want         bool
	}{
		"both on the day before":                  {-time.Second, -time.Second, false},
		"the limiter's on the next day":           {-time.Second / 2, time.Second / 4, true},
		"the limiter's ahead of a second":         {-3 * time.Second / 2, time.Hour, false},
		"the limiter's ahead, and a second later": {-time.Second / 2, time.Hour, true},
	} {
		at := midnight.Add(c.log)
		in := ask(1, 0, func(in *store.Intent) {
			in.Rules = []quota.Rule{{Name: "day", Scope: quota.Recipient, Limit: 1, Per: quota.Day}}
			in.Send.Clock, in.Send.TakenAt = "redis-1", midnight.Add(c.limiter)
		})
		past := CountedSend{ID: uuid.UUID{1}, Clock: store.LogClock, LoggedAt: at.Add(-time.Hour)}
		d := Decide(in, at, Facts{Past: []CountedSend{past}})
		if d.Admitted != c.want {
			t.Errorf("%s: admitted %v", name, d.Admitted)
		}
	}
}

// What a log has to read for a decision.
func TestReach(t *testing.T) {
	in := ask(5, time.Hour, func(in *store.Intent) { in.Rules = append(in.Rules, quota.Rule{Limit: 2, Window: time.Minute}) })
	if got := MaxRowAge(in); got != 25*time.Hour {
		t.Errorf("reads back %v", got)
	}
	if got := LargestLimit(in); got != 5 {
		t.Errorf("reads %d", got)
	}
}

// A code can be checked until just before its end.
func TestPending(t *testing.T) {
	v := store.Verification{MaxAttempts: 5, Attempts: 4, ExpiresAt: now}
	if !Pending(v, now.Add(-time.Microsecond)) || Pending(v, now) {
		t.Error("not until its end")
	}
}
