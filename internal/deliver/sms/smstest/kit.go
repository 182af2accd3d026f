// Package smstest tests what every carrier must do: a test describes requests and answers of the
// carrier's API in a Rig, and the package tries sending, receipts, polls and the probe against a
// server on loopback.
package smstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/kit/servertest"
)

type Answer struct {
	Status int
	Body   string
}

// Rig describes a carrier for Contract.
type Rig struct {
	Name     string
	Make     func(t *testing.T, endpoint string) sms.Carrier
	Check    func(r *http.Request, body string) error // checks the request by the carrier's documentation, with the signature
	Accepted Answer
	ID       string // the carrier's ID of the message
	Cases    map[string]Outcome
}

// Outcome is an answer of a carrier, and the failure that Send must return for it.
type Outcome struct {
	Answer
	Class  delivery.ErrorClass
	Reason string
	Hold   time.Duration
	// PerNumber: the answer may concern only this number.
	PerNumber bool
}

func Reply(status int, body string) Answer { return Answer{status, body} }

func Case(s Answer, class delivery.ErrorClass, reason string, hold time.Duration) Outcome {
	return Outcome{Answer: s, Class: class, Reason: reason, Hold: hold}
}

// PerNumber returns a temporary failure that may concern only this number.
func PerNumber(s Answer) Outcome {
	return Outcome{Answer: s, Class: delivery.Temporary, PerNumber: true}
}

func Want(got []string, want ...string) error {
	if !slices.Equal(got, want) {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}

// Private is the secret of every carrier in the tests.
const Private = "s3cretOfTheAccount"

func Sample() sms.Message {
	return sms.Message{
		ID: "0199a0b0-0000-7000-8000-000000000001", To: "+8613812345678", Country: "CN", Sender: "Shop",
		Text: "739154 is your \"code\" & more", Code: "739154", Minutes: 9, Purpose: "login", Language: "zh-Hans",
		CallbackURL: "https://codes.example.com/v1/receipts/x?send=1&token=t0ken", Life: 9 * time.Minute,
	}
}

type Fake struct {
	*httptest.Server
	mu    sync.Mutex
	seen  int
	wrong error
}

// NewFake returns a server that checks each request by the rig and answers with respond.
func NewFake(t *testing.T, r Rig, respond http.HandlerFunc) *Fake {
	f := &Fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		f.mu.Lock()
		f.seen++
		f.wrong = errors.Join(f.wrong, err, r.Check(req, string(body)))
		f.mu.Unlock()
		respond(w, req)
	}))
	t.Cleanup(f.Close)
	t.Cleanup(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.wrong != nil {
			t.Errorf("the request is not as documented: %v", f.wrong)
		}
	})
	return f
}

func (f *Fake) requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

func Says(s Answer) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(s.Status)
		_, _ = io.WriteString(w, s.Body)
	}
}

// hijacked returns a handler that answers with raw bytes, and cuts the connection.
func hijacked(raw string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = rw.WriteString(raw)
		_ = rw.Flush()
		_ = conn.Close()
	}
}

// Send sends the sample. It fails the test if a failure, or the result beside it, contains a
// secret.
func Send(t *testing.T, ctx context.Context, c sms.Carrier) (delivery.Result, *delivery.Error) {
	t.Helper()
	result, fail := c.Send(ctx, Sample())
	if fail != nil {
		wantNoSecret(t, fail, *fail, result)
	}
	return result, fail
}

func wantNoSecret(t *testing.T, values ...any) {
	t.Helper()
	for _, secret := range []string{Private, "739154", "13812345678", "t0ken"} {
		if strings.Contains(fmt.Sprintf("%v %+v %#v", values, values, values), secret) {
			t.Errorf("%q stands in %v", secret, values)
		}
	}
}

// try sends the sample. It also counts the requests, because a second request would be a second
// message.
func try(t *testing.T, r Rig, ctx context.Context, respond http.HandlerFunc, requests int) (delivery.Result, *delivery.Error) {
	t.Helper()
	f := NewFake(t, r, respond)
	result, fail := Send(t, ctx, r.Make(t, f.URL))
	if f.requests() != requests {
		t.Errorf("%d requests, want %d", f.requests(), requests)
	}
	return result, fail
}

// with returns the handler with additional headers, given as names and values.
func with(answer http.HandlerFunc, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		answer(w, r)
	}
}

// Contract tests Send of the carrier that the rig describes.
func Contract(t *testing.T, r Rig) {
	t.Run("accepted", func(t *testing.T) {
		if result, fail := try(t, r, t.Context(), Says(r.Accepted), 1); fail != nil || result.CarrierID != r.ID {
			t.Errorf("%+v, %v", result, fail)
		}
	})
	for name, o := range r.Cases {
		t.Run(name, func(t *testing.T) {
			_, fail := try(t, r, t.Context(), Says(o.Answer), 1)
			if fail == nil || fail.Class != o.Class || fail.Reason != o.Reason || fail.Hold != o.Hold ||
				fail.Stage != delivery.StageAnswer ||
				o.PerNumber != (fail.Class == delivery.Temporary && fail.About == delivery.AboutRecipient) {
				t.Errorf("%+v; want %v, %q, %v, of this number %v", fail, o.Class, o.Reason, o.Hold, o.PerNumber)
			}
		})
	}
	// The following cases apply to every carrier, whatever its API looks like.
	const quoting = `{"message":"` + Private + ` 739154 +8613812345678"}`
	for name, c := range map[string]struct {
		respond http.HandlerFunc
		class   delivery.ErrorClass
		wait    time.Duration
	}{
		"too many, with a wait": {
			with(Says(Answer{http.StatusTooManyRequests, quoting}), "Retry-After", "7"),
			delivery.Temporary, 7 * time.Second,
		},
		"away, with a date": {with(Says(Answer{http.StatusServiceUnavailable, ""}), "Date", "Fri, 20 Nov 2026 13:00:00 GMT",
			"Retry-After", "Fri, 20 Nov 2026 13:00:09 GMT"), delivery.Temporary, 9 * time.Second},
		"our key is refused":    {Says(Answer{http.StatusUnauthorized, quoting}), delivery.Temporary, 0},
		"the server broke":      {Says(Answer{http.StatusInternalServerError, quoting}), delivery.Unknown, 0},
		"a gateway gave up":     {Says(Answer{http.StatusGatewayTimeout, "<html>" + quoting}), delivery.Unknown, 0},
		"no answer":             {hijacked(""), delivery.Unknown, 0},
		"half a status line":    {hijacked("HTTP/1.1 20"), delivery.Unknown, 0},
		"half an answer":        {hijacked("HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n" + r.Accepted.Body[:3]), delivery.Unknown, 0},
		"an endless answer":     {hijacked("HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat(" ", 64<<10+1)), delivery.Unknown, 0},
		"200 and no such thing": {Says(Answer{http.StatusOK, quoting}), delivery.Unknown, 0},
		"another address":       {with(Says(Answer{http.StatusTemporaryRedirect, ""}), "Location", "/elsewhere"), delivery.Temporary, 0},
		"its answer elsewhere":  {with(Says(Answer{http.StatusSeeOther, ""}), "Location", "/done"), delivery.Unknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if _, fail := try(t, r, t.Context(), c.respond, 1); fail == nil || fail.Class != c.class || fail.RetryAfter != c.wait {
				t.Errorf("%+v; want %v, %v", fail, c.class, c.wait)
			}
		})
	}
	t.Run("the wait is over after the request", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		end := make(chan struct{})
		f := NewFake(t, r, func(http.ResponseWriter, *http.Request) { cancel(); <-end })
		t.Cleanup(func() { close(end) }) // runs before the server is closed
		if _, fail := Send(t, ctx, r.Make(t, f.URL)); fail == nil || fail.Class != delivery.Unknown || !errors.Is(fail, context.Canceled) {
			t.Errorf("%v", fail)
		}
	})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	secured := r
	secured.Make = func(t *testing.T, endpoint string) sms.Carrier {
		return r.Make(t, strings.Replace(endpoint, "http:", "https:", 1))
	}
	nowhere := r
	nowhere.Make = func(t *testing.T, _ string) sms.Carrier {
		return r.Make(t, fmt.Sprint("http://127.0.0.1:", servertest.FreePort(t)))
	}
	for name, c := range map[string]struct {
		rig Rig
		ctx context.Context
	}{
		"over before it began": {r, over}, "no handshake": {secured, t.Context()},
		"nothing listens": {nowhere, t.Context()},
	} {
		t.Run(name, func(t *testing.T) {
			_, fail := try(t, c.rig, c.ctx, Says(r.Accepted), 0)
			if fail == nil || fail.Class != delivery.Temporary || fail.Stage != delivery.StageDial {
				t.Errorf("%v", fail)
			}
		})
	}
}

// PollRig is a carrier that can be polled.
type PollRig struct {
	Rig                         Rig
	ID                          string
	Check                       func(r *http.Request, body string) error
	Delivered, Lost, Open, None string // None: the carrier's answer if it has no such message
	Refusal                     Answer
}

// AskedAt is late in the evening in UTC, when Aliyun's clock already shows the next day.
var AskedAt = time.Date(2030, 3, 1, 23, 30, 0, 0, time.UTC)

// PollContract tests the polls of a carrier. The request must be as documented, with its signature,
// and an answer counts only for this message. The error of a failed poll is never Rejected, because
// it says nothing about the message, and contains nothing private.
func PollContract(t *testing.T, c PollRig) {
	const known, unknown, fails = 1, 2, 3
	for name, x := range map[string]struct {
		respond   http.HandlerFunc
		want      int
		delivered bool
	}{
		"delivered": {Says(Answer{200, c.Delivered}), known, true}, "lost": {Says(Answer{200, c.Lost}), known, false},
		"under way": {Says(Answer{200, c.Open}), unknown, false}, "of others": {Says(Answer{200, c.None}), unknown, false},
		"of another message": {Says(Answer{200, strings.ReplaceAll(c.Delivered, c.ID, "another")}), fails, false},
		"refused":            {Says(c.Refusal), fails, false},
		"no sense":           {Says(Answer{200, "<html>" + Private}), fails, false},
		"broke":              {Says(Answer{500, c.Delivered}), fails, false},
		"too many":           {Says(Answer{429, c.Delivered}), fails, false},
		"cut":                {hijacked("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + c.Delivered[:8]), fails, false},
	} {
		// If a carrier answers with lists, or does not repeat the ID, there is no answer about
		// another message. Only a carrier that answers with lists can leave the message out.
		if name == "of another message" && (c.None != "" || !strings.Contains(c.Delivered, c.ID)) || name == "of others" && c.None == "" {
			continue
		}
		got, final, err := c.ask(t, x.respond)
		want := sms.Report{}
		if x.want == known {
			want = sms.Report{Send: Sample().ID, Delivered: x.delivered}
		}
		var fail *delivery.Error
		if errors.As(err, &fail) != (x.want == fails) || final != (x.want == known) || got != want || fail != nil &&
			fail.Class == delivery.Rejected {
			t.Errorf("%s, %s: %+v, %v, %v", c.Rig.Name, name, got, final, err)
		}
		wantNoSecret(t, err)
	}
}

func StatusQueryOf(id string) sms.StatusQuery {
	return sms.StatusQuery{Send: Sample().ID, CarrierID: id, To: Sample().To, Country: "CN", At: AskedAt}
}

func (p PollRig) ask(t *testing.T, respond http.HandlerFunc) (sms.Report, bool, error) {
	t.Helper()
	r := p.Rig
	r.Check = p.Check
	carrier := r.Make(t, NewFake(t, r, respond).URL)
	poller, ok := sms.NewCarriers([]sms.Route{{Carrier: carrier, Polled: true}}, sms.CarriersOptions{}).Poller(carrier.Name())
	if !ok {
		t.Fatal("it can't be asked")
	}
	return poller.PollStatus(context.Background(), StatusQueryOf(p.ID))
}

// CheckSettings checks settings with one wrong key each. found has the errors of each case by that
// key, and they must name only that key.
func CheckSettings(t *testing.T, found map[string]map[string]error) {
	t.Helper()
	for key, wrong := range found {
		if wrong[key] == nil || len(wrong) != 1 {
			t.Errorf("%s: %v", key, wrong)
		}
	}
}

func ReporterOf(t *testing.T, c sms.Carrier) sms.ReportParser {
	t.Helper()
	r, ok := sms.NewCarriers([]sms.Route{{Carrier: c}}, sms.CarriersOptions{}).ReportParser(c.Name())
	if !ok {
		t.Fatal("it tells nothing")
	}
	return r
}

// ProbeContract probes a carrier that answers s.
func ProbeContract(t *testing.T, r Rig, check func(*http.Request, string) error, s Answer, want error) {
	t.Helper()
	r.Check = check
	got, err := sms.Probe(context.Background(), r.Make(t, NewFake(t, r, Says(s)).URL))
	if !errors.Is(err, want) || err == nil && !strings.HasPrefix(got, "127.0.0.1 answers") || err != nil && got != "" {
		t.Errorf("%s: %q, %v", r.Name, got, err)
	}
	wantNoSecret(t, got, err)
}

// Signed returns the headers that a request's Authorization lists as signed, by lower-case name.
func Signed(r *http.Request) map[string]string {
	_, list, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	signed := map[string]string{}
	for name := range strings.SplitSeq(list, ";") {
		signed[name] = r.Header.Get(name)
	}
	signed["host"] = r.Host
	return signed
}

var SignedAt = time.Date(2026, 11, 20, 23, 59, 59, 5e8, time.FixedZone("", -7*3600))
