package storetest

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// lowConversionWatch judges by few sends, to keep these tests short.
var lowConversionWatch = store.ConversionWatch{Span: 50 * time.Minute, Age: 10 * time.Minute, Sends: 20, Percent: 10}

// judge returns the low conversions that the watch begins and ends, without the IDs, and the events
// that it asks for.
func (f *Fixture) judge(t *testing.T, on *sqldb.DB) (begun, ended []store.LowConversion, asked []string) {
	t.Helper()
	begun, ended, err := on.JudgeConversions(t.Context(), lowConversionWatch, func(app, kind string) (store.NewEvent, error) {
		asked = append(asked, app+" "+kind)
		e := f.NewEvent(kind)
		e.Status = strings.TrimPrefix(kind, "conversion.")
		return e, nil
	})
	OK(t, err)
	for _, list := range [][]store.LowConversion{begun, ended} {
		for i := range list {
			list[i].ID = uuid.Nil
		}
	}
	return begun, ended, asked
}

// mailsTo sends n mails, and approves the codes of the first ones.
func (f *Fixture) mailsTo(t *testing.T, n, approved int, changes ...func(*store.Intent)) {
	t.Helper()
	f.sendTexts(t, n, approved, append(changes, func(in *store.Intent) { in.Send.Channel = recipient.Email })...)
}

// conversionIsJudged checks that a period begins for an app, once for both replicas, if few of its
// strangers' codes are entered. Other sends don't count: those of known browsers and of people whom
// the back end knows, those with codes that their callers check, those that failed or went to a
// test recipient, and those whose codes may still be entered. The period ends when fewer than half
// of the sends are left, or when enough codes are entered.
func conversionIsJudged(t *testing.T, f *Fixture) {
	other := func(in *store.Intent) { in.Send.App = "gym" }
	f.mailsTo(t, 20, 0, ofClass(store.KnownBrowser))
	f.mailsTo(t, 20, 0, ofClass(store.SecretKeyClass))
	f.mailsTo(t, 20, 0, byBrowser, withCode("a caller's code"))
	f.mailsTo(t, 20, 2, byBrowser, other) // a tenth is not less than a tenth
	for i := range 20 {
		f.Ended(t, f.Intent(i, byBrowser), store.Outcome{Status: store.Failed, Reason: store.ReasonRejected})
	}
	f.Ended(t, f.Intent(20, byBrowser), store.Outcome{Status: store.Sent, Provider: "test"}) // to a test recipient
	f.mailsTo(t, 19, 0, byBrowser)
	f.Pass(5 * time.Minute)
	f.mailsTo(t, 1, 0, byBrowser)
	f.Pass(10*time.Minute - time.Microsecond)
	begun, ended, asked := f.judge(t, f.DB)
	Equal(t, "while the twentieth may be entered", []any{begun, ended, asked}, []any{[]store.LowConversion(nil), []store.LowConversion(nil), []string(nil)})
	f.Pass(time.Microsecond)
	began := store.LowConversion{App: "shop", Since: f.Now, Sends: 20}
	begun, _, asked = f.judge(t, f.DB)
	Equal(t, "begun", begun, []store.LowConversion{began})
	Equal(t, "event", asked, []string{"shop conversion.low"})
	begun, ended, asked = f.judge(t, f.Replica)
	Equal(t, "by the other replica", []int{len(begun), len(ended), len(asked)}, []int{0, 0, 0})
	current := Must(f.Replica.LowConversions(t.Context()))(t)
	Equal(t, "current", len(current), 1)
	current[0].ID = uuid.Nil
	Equal(t, "current", current[0], began)
	events := f.events(t, store.AppEventFilter{App: "shop"})
	Equal(t, "its event", []any{len(events), events[0].Type, events[0].Status, events[0].Reason, events[0].VerificationID, events[0].To},
		[]any{1, "conversion.low", "low", "0 of 20 codes entered", "", ""})

	f.Pass(35*time.Minute - time.Microsecond)
	f.mailsTo(t, 9, 0, byBrowser)
	f.Pass(10*time.Minute + time.Microsecond) // the nineteen are an hour old
	begun, ended, _ = f.judge(t, f.Replica)
	Equal(t, "with half of the sends", []int{len(begun), len(ended)}, []int{0, 0})
	f.Pass(5 * time.Minute) // the twentieth is an hour old, too
	began.EndedAt, began.Sends = f.Now, 9
	_, ended, asked = f.judge(t, f.Replica)
	Equal(t, "ended", ended, []store.LowConversion{began})
	Equal(t, "event", asked, []string{"shop conversion.recovered"})
	_, ended, _ = f.judge(t, f.DB)
	Equal(t, "ended again", len(ended), 0)
	Equal(t, "current", len(Must(f.DB.LowConversions(t.Context()))(t)), 0)

	f.mailsTo(t, 31, 0, byBrowser)
	f.Pass(10 * time.Minute)
	begun, _, _ = f.judge(t, f.DB)
	Equal(t, "again", len(begun), 1)
	f.mailsTo(t, 5, 5, byBrowser) // 5 of 36 are more than the tenth below which the watch begins
	f.Pass(10 * time.Minute)
	begun, ended, _ = f.judge(t, f.DB)
	Equal(t, "with 14 %", []int{len(begun), len(ended)}, []int{0, 0})
	f.mailsTo(t, 10, 10, byBrowser)
	f.Pass(10 * time.Minute)
	_, ended, _ = f.judge(t, f.DB)
	Equal(t, "when codes are entered", len(ended), 1)
}

// conversionBeginsOnce checks that if replicas judge at once, one of them begins the period, and
// later one of them ends it.
func conversionBeginsOnce(t *testing.T, f *Fixture) {
	f.mailsTo(t, 20, 0, byBrowser)
	for _, want := range []struct {
		pass                  time.Duration
		begun, ended, current int
	}{{10 * time.Minute, 1, 0, 1}, {time.Hour, 0, 1, 0}} {
		f.Pass(want.pass)
		var begins, ends atomic.Int32
		f.atOnce(t, 6, func(db *sqldb.DB, _ int) (bool, error) {
			begun, ended, err := db.JudgeConversions(t.Context(), lowConversionWatch, func(string, string) (store.NewEvent, error) {
				return store.NewEvent{}, nil
			})
			begins.Add(int32(len(begun)))
			ends.Add(int32(len(ended)))
			return false, err
		})
		Equal(t, "begun, ended, current", []int{int(begins.Load()), int(ends.Load()), len(Must(f.LowConversions(t.Context()))(t))},
			[]int{want.begun, want.ended, want.current})
	}
}
