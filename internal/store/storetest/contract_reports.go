package storetest

import (
	"slices"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// withReport is withCode for a caller that reports each approval.
func withReport(in *store.Intent) {
	withCode("sealed")(in)
	in.Verification.Reported = store.ReportDue
}

func (f *Fixture) report(t *testing.T, id string, r store.Report) store.Verification {
	t.Helper()
	return Must(f.Report(t.Context(), id, r, nil, f.NewEvent(store.VerificationApproved)))(t)
}

// reportsOfCallers checks that a report is written once, and that an approval has one event, and so
// has a failure after the code's end. A failed code may become approved, but an approved code stays
// approved. A code that the service checks has no report.
func reportsOfCallers(t *testing.T, f *Fixture) {
	ours := f.Admit(t, f.Intent(1)).Verification
	Equal(t, "our code", f.report(t, ours.ID, store.ReportApproved), ours)
	v := f.Admit(t, f.Intent(2, withCode("sealed"))).Verification
	Equal(t, "before", v.Reported, store.Report(""))
	f.Pass(store.MaxCodeLife) // a report is accepted even after the code has expired
	approvedAt := time.Time{}
	for _, step := range []struct{ report, want store.Report }{
		{store.ReportFailed, store.ReportFailed},
		{store.ReportFailed, store.ReportFailed},
		{store.ReportApproved, store.ReportApproved},
		{store.ReportApproved, store.ReportApproved},
		{store.ReportFailed, store.ReportApproved},
	} {
		f.Pass(time.Second)
		if step.want == store.ReportApproved && approvedAt.IsZero() {
			approvedAt = f.Now
		}
		got := f.report(t, v.ID, step.report)
		Equal(t, "after "+string(step.report), []any{got.Reported, got.ApprovedAt}, []any{step.want, approvedAt})
	}
	// this report adds no event, because the code has not ended
	f.report(t, f.Admit(t, f.Intent(3, withCode("sealed"))).Verification.ID, store.ReportFailed)
	events := f.events(t, store.AppEventFilter{})
	ended := func(e store.AppEvent) bool { return e.ID == store.ExpiryEventID(v) }
	Equal(t, "events, of which one tells of the end", []any{len(events), slices.ContainsFunc(events, ended)}, []any{2, true})
	Is(t, Err(f.Report(t.Context(), "v\x00", store.ReportFailed, nil, store.NewEvent{})), fault.NotFound)
	Is(t, Err(f.Report(t.Context(), "v-none", store.ReportFailed, nil, store.NewEvent{})), fault.NotFound)
}

// reportsByRecipient checks the code that NewestCallerCode returns: the one that was reported with
// the key, else the newest that is neither reported nor canceled, else the newest. It returns no
// code whose send failed, that the service checks, or that belongs to another app or purpose.
func reportsByRecipient(t *testing.T, f *Fixture) {
	for _, other := range []func(*store.Intent){
		inApp("gym"), func(in *store.Intent) { in.Verification.Holder = "s:1" },
		func(in *store.Intent) { in.Send.Purpose, in.Purposes = "reset", []string{"reset"} },
	} {
		f.Admit(t, f.Intent(1, other, func(in *store.Intent) {
			if in.Verification.Holder == "" {
				withCode("sealed")(in)
			}
		}))
	}
	code := func() string {
		f.Pass(time.Second)
		return f.Ended(t, f.Intent(1, withCode("sealed")), Sent).Verification.ID
	}
	query := store.RecipientVerificationsQuery{App: "shop", Channel: recipient.Email, Recipient: f.Intent(1).Send.Recipient, Purpose: "login"}
	Is(t, Err(f.NewestCallerCode(t.Context(), query)), fault.NotFound)
	meant := func(what, want string) {
		t.Helper()
		Equal(t, what, Must(f.NewestCallerCode(t.Context(), query))(t).ID, want)
	}
	older, newer, canceled := code(), code(), code()
	Must(f.Cancel(t.Context(), canceled))(t)
	f.Pass(time.Second)
	lost := f.Admit(t, f.Intent(1, withReport))
	f.End(t, lost.Send.ID, store.Outcome{Status: store.Failed, Reason: store.ReasonRejected})
	meant("newest that was sent", newer)
	key := make([]byte, store.CheckKeyHashSize)
	Must(f.Report(t.Context(), newer, store.ReportFailed, key, store.NewEvent{}))(t)
	meant("without a report", older)
	query.CheckKey = key
	meant("with the key", newer)
	query.CheckKey = key[1:]
	f.report(t, older, store.ReportApproved)
	Equal(t, "none is without", Must(f.NewestCallerCode(t.Context(), query))(t).ID, canceled)
	f.Pass(store.MaxCodeLife + time.Hour)
	Is(t, Err(f.NewestCallerCode(t.Context(), query)), fault.NotFound)
}

// watchCountsReports checks that the watch counts the reports of callers. A code whose report is
// still due counts as not entered.
func watchCountsReports(t *testing.T, f *Fixture) {
	send := func(prefix string, n int, kind func(*store.Intent), r store.Report, reports int) {
		begun := f.admitAll(t, n, func(i int) store.Intent { return f.Intent(i, text(prefix, "DE"), kind) })
		f.endAll(t, begun, func(int) store.Outcome { return store.Outcome{Status: store.Sent, Provider: "carrier"} })
		for _, b := range begun[:reports] {
			f.report(t, b.Verification.ID, r)
		}
	}
	send("+49160", 10, withReport, store.ReportApproved, 6)
	f.Pass(2 * time.Hour)
	send("+49151", 10, withReport, store.ReportApproved, 0)        // no report came
	send("+49152", 10, withReport, store.ReportApproved, 5)        // near the usual percentage
	send("+49153", 10, withCode("sealed"), store.ReportFailed, 10) // all failed
	send("+49154", 90, withCode("sealed"), store.ReportFailed, 9)  // too few reports
	f.Pass(10 * time.Minute)
	var got []any
	for _, p := range f.pausePrefixes(t, prefixWatch) {
		got = append(got, p.Prefix, p.Sends, p.Approved, p.UsualPercent)
	}
	Equal(t, "paused", got, []any{"+49151", 10, 0, 60, "+49153", 10, 0, 60})
}

// reportsOfRecipients checks that a recipient's report ends a code that was not entered, with one
// event that has the status of the code. The statistics of that time count the report once. A
// repetition changes nothing.
func reportsOfRecipients(t *testing.T, f *Fixture) {
	open, entered := f.Admit(t, f.Intent(1)).Verification, f.Admit(t, f.Intent(2)).Verification
	expired := f.Admit(t, f.Intent(3)).Verification
	f.approve(t, entered.ID)
	statuses := map[string]string{}
	for _, v := range []store.Verification{open, entered, expired} {
		if v.ID == expired.ID {
			f.Pass(expired.ExpiresAt.Sub(f.Now))
		}
		event := f.NewEvent(store.VerificationReported)
		event.Status = "canceled"
		for range 2 {
			got := Must(f.ReportNotMe(t.Context(), v.ID, event))(t)
			Equal(t, "as stored", got, f.Code(t, v.ID))
			event = f.NewEvent(store.VerificationReported)
		}
		statuses[v.ID] = ""
	}
	for _, e := range f.events(t, store.AppEventFilter{}) {
		statuses[e.VerificationID] += e.Status
	}
	Equal(t, "events", statuses, map[string]string{open.ID: "canceled", entered.ID: "approved", expired.ID: "expired"})
	Equal(t, "open", f.Code(t, open.ID).CanceledAt.IsZero(), false)
	Equal(t, "entered", []bool{f.Code(t, entered.ID).CanceledAt.IsZero(), f.Code(t, entered.ID).ApprovedAt.IsZero()}, []bool{true, false})
	query := store.StatsQuery{App: open.App, From: f.Now.Add(-time.Hour), To: f.Now, IntervalLength: time.Hour}
	Equal(t, "before now", Must(f.Stats(t.Context(), query))(t).Reported, 2)
	query.To = f.Now.Add(time.Hour)
	Equal(t, "with now", Must(f.Stats(t.Context(), query))(t).Reported, 3)
	query.App = "gym"
	Equal(t, "of another app", Must(f.Stats(t.Context(), query))(t).Reported, 0)
	Is(t, Err(f.ReportNotMe(t.Context(), "v-none", store.NewEvent{})), fault.NotFound)
}
