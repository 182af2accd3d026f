package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqlite/sqlitetest"
)

func because(reason string) url.Values { return url.Values{"reason": {reason}} }

// maySendAgain reports whether the rules admit another send, and the database counts none of the
// last hour.
func (r *rig) maySendAgain(s store.Send) bool {
	r.Helper()
	d, err := r.Svc.RecipientQuota(context.Background(), s.App, s.Channel, s.Purpose, s.Recipient, store.SecretKeyClass)
	r.Must(err)
	bucket := store.SendBucket{App: s.App, Channel: s.Channel, Recipient: s.Recipient, Purposes: []string{s.Purpose}}
	h, err := r.Store.ReadHistory(context.Background(), rowrules.HistoryQuery{SendBucket: bucket, CountedWithin: time.Hour})
	r.Must(err)
	return d.Allowed() && len(h.Past) == 0
}

// An action that is not committed is neither recorded nor logged. The rig compares the log with the
// audit entries.
func TestActionsThatAreNotCommitted(t *testing.T) {
	r, b := loggedIn(t)
	s := r.writeSent("ana@example.com")
	r.Store.SetHook(func(_ context.Context, _ string, at sqlitetest.Stage) sqlitetest.Fault {
		if at == sqlitetest.Committing {
			return sqlitetest.Down
		}
		return sqlitetest.None
	})
	for _, action := range sendActions {
		if rec := b.Post(explain.SendPageAddress(s.ID)+"/"+action.Path,
			url.Values{"reason": {"ticket 7"}, "sure": {"yes"}}); rec.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", action.Name, rec.Code)
		}
	}
	r.Store.SetFault(nil)
	r.WantActs()
}

// The export of a person's data is recorded when it begins and when it ends, and needs a reason. It
// has no code, no name of an administrator, and no network of a send whose code was not entered.
func TestExportOfAPerson(t *testing.T) {
	r, b := loggedIn(t)
	s := r.writeSent("ana@example.com", func(s *store.Send) { s.Network = "198.51.100.0/24" })
	r.writeSent("bo@example.com")
	page := explain.SendPageAddress(s.ID)
	contains(t, b.Get(page), "?do=export")
	lacks(t, want(t, b.Post(page+"/export", url.Values{}), http.StatusUnprocessableEntity), "verifications")
	r.WantActs()
	rec := want(t, b.Post(page+"/export", because("ticket 7")), http.StatusOK)
	servertest.Same(t, "the file", rec.Header().Get("Content-Disposition"), `attachment; filename="person.json"`)
	var file map[string]struct {
		About string
		Rows  []map[string]any
	}
	r.Must(json.Unmarshal(rec.Body.Bytes(), &file))
	if rows := file["sends"].Rows; len(rows) != 1 || rows[0]["id"] != s.ID.String() || rows[0]["network"] != "" ||
		rows[0]["finished_at"] == nil ||
		!strings.Contains(file["sends"].About, "for ever") || len(file["verifications"].Rows) != 1 || len(file["audit_entries"].Rows) != 1 {
		t.Errorf("%s", rec.Body)
	}
	lacks(t, rec, "bo@example.com", "198.51.100", `"admin"`, "ticket 7", s.VerificationID)
	r.WantActs(
		act{Who: "admin", What: auth.ActionExportRecipient, Outcome: store.AuditBegun, To: s.To, Reason: "ticket 7"},
		act{Who: "admin", What: auth.ActionExportRecipient, Outcome: store.AuditDone, Detail: "rows=4", To: s.To, Reason: "ticket 7"})
}

// A refusal belongs to no code, but an administrator can reset its quota.
func TestActionsOnARefusal(t *testing.T) {
	r, b := loggedIn(t)
	refusal := r.writeRefused("bo@example.com", "minute", 42*time.Second, 3)
	for _, path := range []string{"/resend", "/cancel", "/reveal"} {
		want(t, b.Post(explain.SendPageAddress(refusal.ID)+path, confirmed("ticket 7")), http.StatusConflict)
	}
	r.WantActs()
	s := r.writeRefused("ana@example.com", "minute", 42*time.Second, 3)
	r.take(r.row("ana@example.com"))
	want(t, b.Post(explain.SendPageAddress(s.ID)+"/reset", because("x")), http.StatusSeeOther)
	if !r.maySendAgain(store.Send{App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: s.Recipient}) {
		t.Error("not reset")
	}
}

// Each role is offered exactly the actions that it may perform. No role may send a caller's code
// again, since the code is not stored.
func TestActionsForOffersWhatTheRoleMay(t *testing.T) {
	r := newRig(t)
	s := r.writeSent("ana@example.com")
	story, err := r.Store.SendDetails(context.Background(), s.ID)
	r.Must(err)
	const operators = "verification.resend quota.reset recipient.reveal recipient.export verification.cancel"
	for role, want := range map[auth.Role]string{
		auth.Reader: "", auth.Operator: operators,
		auth.Owner: operators + " recipient.erase", "": "",
	} {
		for _, callers := range []bool{false, true} {
			story.Verification.CallerChecks = callers
			var got []string
			for _, action := range actionsFor(auth.Actor{Name: "x", Role: role}, story) {
				got = append(got, string(action.Name))
			}
			if callers {
				want = strings.Replace(want, "verification.resend ", "", 1)
			}
			if got := strings.Join(got, " "); got != want {
				t.Errorf("%q is offered %q, want %q; a caller's code: %v", role, got, want, callers)
			}
		}
	}
}

// If a suppression came after the send, the page begins with it, and offers to lift the suppression
// instead of sending another message. If a resend could not be sent, the page says so.
func TestASuppressionAfterTheSend(t *testing.T) {
	r, b := loggedIn(t)
	s := r.writeSent("ana@example.com")
	page := explain.SendPageAddress(s.ID)
	lacks(t, b.Get(page), "Lift the suppression")
	r.suppress("ana@example.com", "asked for no more mail")
	contains(t, b.Get(page), "Lift the suppression</a>", "this recipient gets no mail (by hand · asked for no more mail · admin)",
		"verdict warn")
	lacks(t, b.Get(page), "?do=resend")
	r.Clock.Add(time.Minute)
	stop := r.Svc.Background()
	t.Cleanup(stop)
	rec := want(t, b.Post(page+"/resend", because("ticket 7")), http.StatusConflict)
	contains(t, rec, `<p class="note warn" role="status">Nothing was sent: this recipient gets no messages. Lift the suppression first.`,
		"They asked again at")
	lacks(t, rec, "on its way once more")
	list, err := r.Store.Sends(r.Context(), store.Filter{Limit: 10})
	r.Must(err)
	servertest.Same(t, "sends", len(list), 2)
	r.Break("Suppressions")
	want(t, b.Get(page), http.StatusServiceUnavailable)
}

// Nothing is erased until the administrator has confirmed that the erasure can't be undone.
func TestErasingIsConfirmed(t *testing.T) {
	r, b := loggedIn(t)
	s := r.writeSent("ana@example.com")
	page := explain.SendPageAddress(s.ID)
	for _, sure := range [][]string{nil, {""}, {"no"}} {
		rec := want(t, b.Post(page+"/erase", url.Values{"reason": {"ticket 7"}, "sure": sure}), http.StatusUnprocessableEntity)
		contains(t, rec, `role="alert"`, `value="ticket 7"`, s.To)
	}
	contains(t, b.Get(page), s.To)
	r.WantActs()
}

// A reset is for the app of its send, even if another app sent to the same recipient.
func TestAResetIsForTheSendsApp(t *testing.T) {
	r, b := loggedIn(t)
	ofShop := r.writeSent("ana@example.com")
	r.Clock.Add(time.Second)
	ofDesk := r.writeSent("ana@example.com", func(s *store.Send) { s.App = "desk" })
	page := explain.SendPageAddress(ofDesk.ID)
	redirects(t, b.Post(page+"/reset", because("ticket 7")), page+"?done="+auth.ActionResetQuota)
	if r.maySendAgain(ofShop) || !r.maySendAgain(ofDesk) {
		t.Errorf("free: shop %v, desk %v", r.maySendAgain(ofShop), r.maySendAgain(ofDesk))
	}
}

// confirmed returns the fields of a confirmed form.
func confirmed(reason string) url.Values { return url.Values{"reason": {reason}, "sure": {"yes"}} }

func TestActionForms(t *testing.T) {
	r, b := loggedIn(t)
	s := r.writeSent("ana@example.com")
	page, form := explain.SendPageAddress(s.ID), confirmed("ticket 7")
	contains(t, b.Get(page), "?do=resend#actions", "?do=reset#actions", "?do=reveal#actions", "?do=export#actions", "?do=cancel#actions",
		"?do=erase#actions")
	reads(t, b.Get(page), "Code waiting", "code expires")
	revealed := want(t, b.Post(page+"/reveal", form), http.StatusOK)
	contains(t, revealed, "ana@example.com")
	servertest.Same(t, "Cache-Control", revealed.Header().Get("Cache-Control"), "no-store")
	lacks(t, b.Get(page), "ana@example.com")
	limited := want(t, b.Post(page+"/resend", form), http.StatusTooManyRequests)
	servertest.Same(t, "Retry-After", limited.Header().Get("Retry-After"), "60")
	contains(t, limited, "Blocked by a rule for another 1 min.", `value="ticket 7"`, "aria-invalid")
	redirects(t, b.Post(page+"/cancel", form), page+"?done=verification.cancel")
	lacks(t, b.Get(page), "?do=resend", "?do=cancel", "Code waiting", "code expires")
	reads(t, b.Get(page), "Code canceled")
	want(t, b.Post(page+"/cancel", form), http.StatusConflict)
	want(t, b.Post(page+"/resend", form), http.StatusConflict)
	redirects(t, b.Post(page+"/erase", form), page+"?done=recipient.erase")
	lacks(t, b.Get(page), s.To, "203.0.113.0", "?do=reveal")
	reads(t, b.Get(page), "Recipient "+store.ErasedMask, "Its recipient was erased since then.")
	want(t, b.Post(page+"/reveal", form), http.StatusConflict)
	did := func(what string, outcome store.AuditOutcome, detail string) act {
		return act{Who: "admin", What: what, Outcome: outcome, Detail: detail, To: store.ErasedMask, Reason: "ticket 7"}
	}
	r.WantActs(did(auth.ActionRevealRecipient, store.AuditDone, ""), did(auth.ActionResend, store.AuditBegun, ""),
		did(auth.ActionResend, store.AuditFailed, "minute"), did(auth.ActionCancel, store.AuditDone, ""),
		did(auth.ActionEraseRecipient, store.AuditDone, ""))
	lacks(t, b.Get(page+"?done=<script>"), "<script>")
	r.Unlogged("ana@example.com")
}

func TestActionsJSON(t *testing.T) {
	r := newRig(t)
	send := r.writeSent("ana@example.com")
	b, page := r.Browser(), "/v1"+explain.SendPageAddress(send.ID)
	const person, reason = `{"channel":"email","to":"Ana@Example.com","purpose":"login","reason":"ticket 7"}`, `{"reason":"ticket 7"}`
	post := func(path, body string) *httptest.ResponseRecorder {
		return b.Do(http.MethodPost, path, body, asScript...)
	}
	for _, path := range []string{"/v1/admin/quota/reset", "/v1/admin/erase", "/v1/admin/export"} {
		got := problemOf(t, post(path, strings.Replace(person, "ticket 7", "for ana@example.com", 1)), server.InvalidField)
		servertest.Same(t, path+": field", got.Field, "reason")
		servertest.Same(t, path+": reason", got.Reason, "names_recipient")
	}
	for _, path := range []string{"/resend", "/cancel", "/reveal"} {
		got := problemOf(t, post(page+path, `{"reason":" "}`), server.InvalidField)
		servertest.Same(t, path+": field", got.Field, "reason")
		servertest.Same(t, path+": reason", got.Reason, "required")
	}
	r.WantActs()
	limited := post(page+"/resend", reason)
	problemOf(t, limited, server.NotDoneKind)
	servertest.Same(t, "Retry-After", limited.Header().Get("Retry-After"), "60")
	want(t, post("/v1/admin/quota/reset", person), http.StatusNoContent)
	if !r.maySendAgain(send) {
		t.Error("not reset")
	}
	contains(t, want(t, post(page+"/reveal", reason), http.StatusOK), `{"to":"ana@example.com"}`)
	want(t, post(page+"/cancel", reason), http.StatusNoContent)
	problemOf(t, post(page+"/resend", reason), server.NotDoneKind)
	want(t, post("/v1/admin/erase", person), http.StatusNoContent)
	problemOf(t, post(page+"/reset", reason), server.NotFound)
	did := func(what string, outcome store.AuditOutcome, detail string) act {
		return act{Who: "token", What: what, Outcome: outcome, Detail: detail, To: store.ErasedMask, Reason: "ticket 7"}
	}
	r.WantActs(did(auth.ActionResend, store.AuditBegun, ""), did(auth.ActionResend, store.AuditFailed, "minute"),
		did(auth.ActionResetQuota, store.AuditBegun, ""), did(auth.ActionResetQuota, store.AuditDone, ""),
		did(auth.ActionRevealRecipient, store.AuditDone, ""), did(auth.ActionCancel, store.AuditDone, ""),
		did(auth.ActionEraseRecipient, store.AuditDone, ""))
	r.Unlogged("ana@", "Ana@")
}

// Each form of an action asks for a reason without the recipient and, if it cannot be undone, for a
// confirmation. It keeps what was typed.
func TestActionFormsAskAgain(t *testing.T) {
	r, b := loggedIn(t)
	page := explain.SendPageAddress(r.writeSent("ana@example.com").ID)
	for _, action := range sendActions {
		rec := b.Post(page+"/"+action.Path, confirmed("she is ana@example.com"))
		contains(t, want(t, rec, http.StatusUnprocessableEntity), "Leave names, addresses and numbers out of it",
			`value="she is ana@example.com"`, page+"/"+action.Path)
		if action.Sure {
			contains(t, want(t, b.Post(page+"/"+action.Path, because("asked")), http.StatusUnprocessableEntity), "Tick the box to confirm.",
				`value="asked"`)
		}
	}
	want(t, b.Post("/admin/sends/00000000-0000-7000-8000-000000000000/reset", because("x")), http.StatusNotFound)
	r.WantActs()
}

// After an action the page reads the rows again and shows the current state. It doesn't say that a
// message was sent if no server has accepted it. After a reset it names the rules and stops that a
// reset does not lift.
func TestActionsShowTheCurrentState(t *testing.T) {
	r, b := loggedIn(t)
	done := func(page, act string, says ...string) {
		t.Helper()
		to := want(t, b.Post(page+"/"+act, confirmed("ticket 7")), http.StatusSeeOther).Header().Get("Location")
		reads(t, b.Get(to), says...)
		lacks(t, b.Get(to), "on its way")
	}
	sent := r.writeSent("ana@example.com")
	page := explain.SendPageAddress(sent.ID)
	r.Clock.Add(time.Minute)
	release := make(chan struct{})
	r.MailServer.Answer(func(context.Context) error { <-release; return nil })
	t.Cleanup(r.Svc.Background())
	done(page, "resend", "Another message was asked for at", "nothing has accepted it yet") // the server has not answered
	contains(t, b.Get(page+"?done=verification.resend"), `<p class="note warn" role="status">`)
	close(release)
	var again store.SendOrRefusal
	servertest.Await(t, "the server's answer", func() bool {
		rows, err := r.Store.Sends(context.Background(), store.Filter{SendsOnly: true, Limit: 1})
		r.Must(err)
		again = rows[0]
		return again.Status == store.Sent
	})
	contains(t, b.Get(page+"?done=verification.resend"), `<p class="note good" role="status">Sent again at`, "accepted it.")
	lacks(t, b.Get(explain.SendPageAddress(again.ID)+"?done=verification.resend"), "Sent again at") // the send itself is the newest send
	lacks(t, b.Get(page+"?done=verification.cancel"), "The code is canceled")
	lacks(t, b.Get(page+"?done=recipient.erase"), "is erased")

	byNetwork := r.writeRefused("bo@example.com", "network", 20*time.Minute, 1)
	done(explain.SendPageAddress(byNetwork.ID), "reset", "The quota of this recipient is reset, and the rule network that refused them is not")
	own := r.writeRefused("bo@example.com", "minute", 20*time.Minute, 1)
	done(explain.SendPageAddress(own.ID), "reset", "The quota is reset: they can ask again now.")
	r.suppress("bo@example.com", "asked for no more mail")
	done(explain.SendPageAddress(own.ID), "reset", "The quota is reset, but nothing will be sent: this recipient gets no messages.")
	done(page, "cancel", "The code is canceled: it no longer works.")
	done(page, "erase", "The recipient is erased.")
}

// After a change of an account the page shows the account's current state, not only that something
// was changed.
func TestAccountChangesShowTheCurrentState(t *testing.T) {
	r, b := loggedIn(t)
	change := func(do string, more url.Values, says string) {
		t.Helper()
		form := url.Values{"do": {do}, "name": {"mei"}, "reason": {"ticket 7"}}
		for name, values := range more {
			form[name] = values
		}
		reads(t, b.Post("/admin/accounts", form), says)
	}
	change("add", url.Values{"role": {"reader"}}, "mei can log in as reader, with the password below.")
	change("role", url.Values{"role": {"operator"}}, "mei is operator now.")
	change("password", nil, "mei has a new password, and the old one no longer works.")
	change("close", nil, "The account mei is closed: nobody can log in with it.")
	change("role", url.Values{"role": {"reader"}}, "The account mei is closed: nobody can log in with it.") // the closed account matters more than its role
	change("open", nil, "The account mei is open: its person can log in again.")
	change("identity", url.Values{"identity": {"mei@corp"}}, "mei logs in at the provider as mei@corp.")
	change("identity", url.Values{"identity": {""}}, "mei no longer logs in at the provider.")
	r.Must(r.Store.AddAccount(r.Context(), store.Account{Name: "nils", Role: "reader"}, r.act("account.add")))
	reads(t, b.Post("/admin/accounts", url.Values{"do": {"role"}, "name": {"nils"}, "role": {"operator"}, "reason": {"ticket 7"}}),
		"The account nils is changed, but nobody can log in with it: it has no password, and no name at the provider.")
}

// After a suppression was added or lifted, the list of its recipient shows whether the recipient is
// suppressed now.
func TestSuppressionActionsShowTheCurrentState(t *testing.T) {
	r, b := loggedIn(t)
	const page = "/admin/suppressions"
	_, hash := r.recipient("bo@example.com")
	add := url.Values{"channel": {"email"}, "to": {"bo@example.com"}, "days": {"2"}, "reason": {"asked"}}
	lift := url.Values{"channel": {"email"}, "address": {hash.String()}, "recipient": {hash.String()}, "reason": {"mended"}}
	led := func(path string, form url.Values) *httptest.ResponseRecorder {
		return b.Get(want(t, b.Post(path, form), http.StatusSeeOther).Header().Get("Location"))
	}
	reads(t, led(page, add), "Suppressed: b•••@example.com gets no messages of every app, since 2026-03-04", "until 2026-03-06")
	add.Set("app", "shop")
	led(page, add)
	lift.Set("app", "shop")
	reads(t, led(page+"/lift", lift), "b•••@example.com still gets no messages of every app: a suppression holds since")
	lift.Set("app", "")
	reads(t, led(page+"/lift", lift), "Lifted: b•••@example.com gets messages again. Nothing was sent now")
	lacks(t, b.Get(page+"?done=suppression.lift"), "Lifted:") // the address names no recipient
	add.Set("days", "1")
	add.Del("app")
	led(page, add)
	r.Clock.Add(25 * time.Hour)
	b = r.LoggedIn()
	reads(t, led(page+"/lift", lift), "There was nothing to lift: the suppression of b•••@example.com ended at 2026-03-05")
	reads(t, b.Get(page+"?done=suppression.add&state=all&recipient="+hash.String()), "Nothing is suppressed: b•••@example.com gets messages.")
}
