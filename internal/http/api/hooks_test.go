package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/standardwebhooks"
	"sendcode/internal/http/api"
	"sendcode/internal/http/authhooks"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

var hookSecrets = [][]byte{[]byte("the secret that is in use now..."), []byte("the secret that comes after it..")}

// supabase calls a hook as Supabase Auth does (internal/http/hooks/hookshttp of
// github.com/supabase/auth, read at 8983071).
type supabase struct {
	*vtest.Rig
	e           *echo.Echo
	hook        string
	secret      [][]byte // each request has a signature with each of these secrets
	lostAnswers int      // how many answers to the next call are lost because the connection breaks
}

func newSupabase(r *vtest.Rig, kind authhooks.HookKind, change ...func(*authhooks.Hook)) *supabase {
	logger := slog.New(slog.NewJSONHandler(io.Discard, nil))
	e := server.New(server.Config{Logger: logger})
	hook := authhooks.Hook{
		Name: "auth", App: "shop", Kind: kind, Secrets: hookSecrets[:1], TTL: time.Hour,
		Purposes: map[string]string{"email_change": "login"},
	}
	for _, f := range change {
		f(&hook)
	}
	api.NewAuthHooks([]authhooks.Hook{hook}, r.Svc, logger).Register(e)
	return &supabase{Rig: r, e: e, hook: "auth", secret: [][]byte{hookSecrets[1], hookSecrets[0]}}
}

// body returns the body of a request that was recorded from Supabase Auth.
func (s *supabase) body(name string) string {
	s.Helper()
	body, err := os.ReadFile("../authhooks/testdata/" + name + ".json")
	if err != nil {
		s.Fatal(err)
	}
	return string(body)
}

// post sends the body once, with a signature.
func (s *supabase) post(ctx context.Context, body string) *httptest.ResponseRecorder {
	s.Helper()
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/hooks/"+s.hook, strings.NewReader(body))
	id := uuid.NewString() // a new ID for each attempt
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Webhook-Id": {id},
		"Webhook-Timestamp": {strconv.FormatInt(time.Now().Unix(), 10)},
		"Webhook-Signature": {strings.ReplaceAll(standardwebhooks.Sign(s.secret, id, time.Now(), []byte(body)), " ", ", ")},
	}
	w := httptest.NewRecorder()
	s.e.ServeHTTP(w, req)
	return w
}

// call returns the answer that Supabase gives its client, as docs/supabase.md describes it: a
// status and a text, or "200 " if the hook succeeded. Supabase makes three attempts within 5 s, 2 s
// apart.
func (s *supabase) call(body string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	const tooLate = "422 Failed to reach hook within maximum time of 5.000000 seconds"
	for n := range 3 {
		answers := make(chan string, 1)
		go func() { answers <- s.attempt(ctx, body) }()
		select {
		case <-ctx.Done():
			return tooLate
		case answer := <-answers:
			synctest.Wait()
			if s.lostAnswers--; s.lostAnswers < 0 {
				s.lostAnswers = 0
				return answer
			}
			if n == 2 {
				return "422 Failed to reach hook after maximum retries"
			}
		}
		select {
		case <-ctx.Done():
			return tooLate
		case <-time.After(2 * time.Second):
		}
	}
	panic("three attempts end above")
}

// attempt returns the status and the message that Supabase reports for one answer.
func (s *supabase) attempt(ctx context.Context, body string) string {
	s.Helper()
	w := s.post(ctx, body)
	switch w.Code {
	case http.StatusOK:
		var answer struct {
			Error *struct {
				Status  int    `json:"http_code"`
				Message string `json:"message"`
			}
		}
		if kind := w.Header().Get("Content-Type"); !strings.HasPrefix(kind, "application/json") ||
			json.Unmarshal(w.Body.Bytes(), &answer) != nil {
			return "400 Invalid Content-Type or JSON"
		}
		if answer.Error == nil || answer.Error.Message == "" {
			return "200 "
		}
		return fmt.Sprint(answer.Error.Status, " ", answer.Error.Message)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return "500 Service currently unavailable due to hook"
	case http.StatusBadRequest:
		return "500 Invalid payload sent to hook"
	case http.StatusUnauthorized:
		return "500 Hook requires authorization token"
	}
	return fmt.Sprint("500 Unexpected status code returned from hook: ", w.Code)
}

// again returns the body of another request of the same person.
func again(body string, n int) string {
	return strings.Replace(body, "-0000000000", fmt.Sprintf("-%d000000000", n), 1)
}

// The cases follow the table in docs/supabase.md. Other tests of this package have its rows about
// one mailbox, deliveries that fail, and a request that is still under way.
func TestHookAnswersSupabase(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		s := newSupabase(r, authhooks.SupabaseEmail)
		signup := s.body("signup")
		r.Want("a code", s.call(signup), "200 ")
		mail := r.MailServer.Attempts()[0]
		vtest.Equal(r, "the mail: To", mail.To, "ana@example.com")
		vtest.Equal(r, "the mail: LastCode", r.LastCode(), "305805")
		if !strings.Contains(mail.Text, "59 minutes") && !strings.Contains(mail.Text, "60 minutes") {
			t.Errorf("the ttl is not told: %s", mail.Text)
		}
		row := r.Rows()[0]
		vtest.Equal(r, "the row: App", row.App, "shop")
		vtest.Equal(r, "the row: Purpose", row.Purpose, "default")
		vtest.Equal(r, "the row: Network", row.Network, "203.0.113.0/24")
		r.Want("class", r.Verification(row.VerificationID).Class, store.StrangerClass)
		r.Sleep(18 * time.Second)
		r.Want("within the minute", s.call(again(signup, 1)), "429 The next code can be sent in 42 s.")
		r.Sleep(42*time.Second - time.Microsecond)
		r.Want("a moment too early", s.call(again(signup, 2)), "429 The next code can be sent in 1 s.")
		r.Sleep(time.Microsecond)
		r.Want("after the wait", s.call(again(signup, 3)), "200 ")
		r.WantMails(2)

		r.Want("no address", s.call(again(strings.Replace(signup, `"email":"ana@example.com"`, `"email":"ana@"`, 1),
			4)), "422 There is nothing after the @.")
		r.Want("no code", s.call(again(strings.Replace(signup, `"305805"`, `""`, 1), 4)),
			"422 The sign-in service did not say which code to send, so nothing was sent. Please tell the people who run this site.")
		r.Want("a notification", s.call(s.body("notification")), "200 ")
		r.Want("no body of this hook", s.call(`{"sms":{"otp":"123456"}}`), "500 Invalid payload sent to hook")
		r.Want("too large", s.call(`{"user":"`+strings.Repeat("a", authhooks.MaxBodyBytes)+`"}`),
			"500 Unexpected status code returned from hook: 413")
		s.secret = [][]byte{[]byte("another secret, which is no one's")}
		r.Want("a forged request", s.call(again(signup, 5)), "500 Hook requires authorization token")
		s.secret, s.hook = hookSecrets[:1], "other"
		r.Want("no such hook", s.call(again(signup, 6)), "500 Unexpected status code returned from hook: 404")
		s.hook = "auth"
		r.Store.Fail(sqlitetest.Down)
		r.Want("the database is away", s.call(again(signup, 7)),
			"503 Codes can't be sent or checked right now. Please try again in a moment.")
		r.WantMails(2)
		r.EndStoreFaults()

		r.Sleep(time.Minute)
		r.Store.SetHook(func(_ context.Context, method string, at sqlitetest.Stage) sqlitetest.Fault {
			if (method == "ClaimIdempotencyKey" || method == "Begin") && at == sqlitetest.Asking {
				time.Sleep(2800 * time.Millisecond) // two calls exceed the deadline of a hook, but not that of a send
			}
			return sqlitetest.None
		})
		r.Want("a slow database", s.call(again(signup, 8)), "503 Codes can't be sent or checked right now. Please try again in a moment.")
		r.EndStoreFaults()
		r.Sleep(2 * time.Second) // a second after the database's answer
		r.WantMails(2)           // the earlier code is still valid
		r.Want("after that", s.call(again(signup, 9)), "200 ")
		r.WantMails(3)
		r.Sleep(time.Minute)
		s.lostAnswers = 1
		r.Want("the connection broke once", s.call(strings.Replace(signup, "-0000000000", "-1100000000", 1)), "200 ")
		r.WantMails(4)
		r.Sleep(time.Minute)
		s.lostAnswers = 3
		r.Want("the connection broke each time", s.call(strings.Replace(signup, "-0000000000", "-1200000000", 1)),
			"422 Failed to reach hook after maximum retries")
		r.WantMails(5)
	})
}

// A repeated request with a new webhook-id sends nothing twice, even while the first request is
// under way or after it was refused. This also holds for older servers, whose requests have no
// metadata.
func TestHookRepetitionSendsNothingTwice(t *testing.T) {
	for _, name := range []string{"signup", "magiclink_without_metadata"} {
		vtest.InBubble(t, func(r *vtest.Rig) {
			s := newSupabase(r, authhooks.SupabaseEmail)
			body := s.body(name)
			for range 3 {
				r.Want("a repetition", s.call(body), "200 ")
				r.Sleep(2 * time.Second)
			}
			r.WantMails(1)
			other := again(strings.Replace(body, "305805", "305806", 1), 1)
			r.Want("refused", s.call(other), "429 The next code can be sent in 54 s.")
			r.Want("refused again", s.call(other), "429 The next code can be sent in 54 s.")
			r.Sleep(54 * time.Second)
			r.Want("admitted", s.call(other), "200 ")
			vtest.Equal(r, "mails", len(r.MailServer.Attempts()), 2)
			vtest.Equal(r, "code", r.LastCode(), "305806")
		})
	}
}

// Of two codes for two addresses, either both are sent or neither is: if one is refused, the other
// is not sent.
func TestHookChangeOfAddressSendsBothOrNone(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		s := newSupabase(r, authhooks.SupabaseEmail)
		change := s.body("email_change_secure")
		mailsAfter := func(n int) (all []string) { // sorted, because the mails of one request leave in any order
			for _, m := range r.MailServer.Attempts()[n:] {
				all = append(all, m.To+" "+vtest.CodeIn(m))
			}
			slices.Sort(all)
			return all
		}
		r.SendTo("ana.new@example.com", vtest.For("login"))
		r.Want("the new address has to wait", s.call(change), "429 The next code can be sent in 1 min.")
		r.WantMails(1)
		r.Sleep(time.Minute)
		for range 2 {
			r.Want("both", s.call(change), "200 ")
		}
		both := []string{"ana.new@example.com 781440", "ana@example.com 305805"}
		r.Want("mails", mailsAfter(1), both)
		r.Want("purpose", r.Rows()[0].Purpose, "login")
		r.Sleep(time.Minute)
		r.Want("one, if the old address need not agree", s.call(s.body("email_change")), "200 ")
		r.Want("mails", mailsAfter(3), "[ana.new@example.com 781440]")
	})
}

// If a send fails before the deadline, the answer says so. With a slow mail server, the answer is a
// success at the deadline.
func TestHookAnswerTellsAFailedSend(t *testing.T) {
	const gone, away = "422 We could not deliver to this address. Check it for a typing mistake, or use another one.",
		"503 Codes can't be sent or checked right now. Please try again in a moment."
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		s := newSupabase(r, authhooks.SupabaseEmail)
		n := 0
		next := func() string { n++; return s.call(again(s.body("signup"), n)) }
		r.MailServer.Answer(vtest.NoMailbox)
		r.Want("no such mailbox", next(), gone)
		r.Want("suppressed", next(), gone)
		r.WantMails(1)
		r.NoError(r.Svc.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")))
		set := r.Svc.Policies()
		stopped := set
		stopped.Pauses = []policy.Pause{{Channel: recipient.Email}}
		r.Svc.Change(stopped)
		change := strings.ReplaceAll(s.body("email_change"), "ana.new", "bob")
		r.Want("paused", s.call(change), away)
		stopped.Pauses, stopped.Blocks.Domains = nil, map[string]bool{"example.com": true}
		r.Svc.Change(stopped)
		r.Want("blocked", s.call(again(change, 7)), gone)
		r.Svc.Change(set)
		r.WantMails(1)
		r.MailServer.Answer(func(context.Context) error { time.Sleep(10 * time.Second); return nil })
		began := time.Now()
		r.Want("a slow server", s.call(strings.ReplaceAll(again(change, 8), "bob", "eve")), "200 ")
		r.Want("its answer", time.Since(began), 4*time.Second)
		r.Sleep(time.Minute)
	})
}

// lateService decides a send just after the deadline of the request.
type lateService struct {
	*verification.Service
	maySend bool // the message may leave
}

// Send is called by api.AuthHooks.
func (l *lateService) Send(_ context.Context, ask verification.Request) (verification.Answer, error) {
	time.Sleep(4*time.Second + 1)
	l.maySend = ask.MaySend()
	return verification.Answer{}, verification.ErrKeptBack
}

// A message that is admitted after the deadline is not sent, even if it is the only one, since the
// auth server has told the person that the request failed.
func TestHookSendsNothingAfterItsDeadline(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		s, late := newSupabase(r, authhooks.SupabaseEmail), &lateService{}
		s.e = server.New(server.Config{Logger: slog.New(slog.DiscardHandler)})
		api.NewAuthHooks([]authhooks.Hook{
			{Name: "auth", App: "shop", Kind: authhooks.SupabaseEmail, Secrets: hookSecrets[:1], TTL: time.Hour},
		},
			late, slog.New(slog.DiscardHandler)).Register(s.e)
		r.Want("answer", s.call(s.body("signup")), "503 Codes can't be sent or checked right now. Please try again in a moment.")
		r.Want("left", late.maySend, false)
	})
}

// If both addresses are of one mailbox, a rule with one place can never admit both codes: nothing
// is sent, and the answer has no wait. With two places, both codes are sent.
func TestHookChangeWithinOneMailbox(t *testing.T) {
	vtest.InBubbleWith(t, vtest.FoldGmail, func(r *vtest.Rig) {
		s := newSupabase(r, authhooks.SupabaseEmail)
		change := strings.NewReplacer("ana.new@example.com", "a.na@gmail.com", "ana@example.com", "ana@gmail.com").Replace(
			s.body("email_change_secure"))
		r.Want("one place", s.call(change),
			"422 The old and the new address are one mailbox here, and two codes cannot go to it at once. Nothing was sent. Use another address.")
		r.Want("rows", len(r.Rows()), 0)
		r.Change(quota.Policy{Rules: []quota.Rule{{Name: "hour", Scope: quota.Recipient, Limit: 2, Window: time.Hour}}})
		r.Want("two places", s.call(again(change, 1)), "200 ")
		r.WantMails(2)
	})
}

// The text message goes to the number with a plus, although Supabase sends the number without one.
func TestHookTextMessages(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) { s.Numbers.Countries = []string{"DE"} }, func(r *vtest.Rig) {
		s := newSupabase(r, authhooks.SupabaseSMS)
		r.Want("a code", s.call(s.body("sms")), "200 ")
		r.Want("again", s.call(again(s.body("sms"), 1)), "429 The next code can be sent in 1 min.")
		got := r.Carrier.Accepted()
		if len(got) != 1 || got[0].To != "+4915123456789" || got[0].Code != "561166" || !strings.Contains(got[0].Text, "561166") {
			t.Errorf("%+v", got)
		}
	})
}
