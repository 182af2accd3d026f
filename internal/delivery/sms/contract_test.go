package sms

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/parts"
)

// said is one answer of a carrier.
type said struct {
	status int
	body   string
}

// rig is what the contract suite needs of a carrier.
type rig struct {
	name  string
	make  func(t *testing.T, endpoint string) Carrier
	check func(r *http.Request, body string) error // as the carrier's documentation has it, signature and all
	taken said
	id    string // the carrier's for the message
	cases map[string]outcome
	token func(r *http.Request, body string) string // nil: the carrier knows none
}

type outcome struct {
	said
	class  delivery.Class
	reason string
	hold   time.Duration
}

const private = "s3cretOfTheAccount"

func sample() Message {
	return Message{
		ID: "0199a0b0-0000-7000-8000-000000000001", To: "+8613812345678", Country: "CN", Sender: "Shop",
		Text: "739154 is your \"code\" & more", Code: "739154", Minutes: 9, Purpose: "login", Language: "zh-Hans",
		Callback: "https://codes.example.com/v1/receipts/x?send=1&token=t0ken", Life: 9 * time.Minute,
	}
}

// fake is a carrier on loopback.
type fake struct {
	*httptest.Server
	mu     sync.Mutex
	seen   int
	tokens []string
	wrong  error
}

func newFake(t *testing.T, r rig, respond http.HandlerFunc) *fake {
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		f.mu.Lock()
		f.seen++
		if !req.Close {
			f.wrong = errors.New("the connection is kept, so net/http may repeat a request by itself")
		}
		if f.wrong = errors.Join(f.wrong, err, r.check(req, string(body))); r.token != nil {
			f.tokens = append(f.tokens, r.token(req, string(body)))
		}
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

func (f *fake) requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

func says(s said) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.body)
	}
}

// hijacked answers with raw bytes, and cuts the connection.
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

func rigs() []rig {
	return []rig{genericRig().rig, kannelRig(), twilioRig(), aliyunRig(), tencentRig()}
}

func send(t *testing.T, c Carrier) (Receipt, *Error) {
	t.Helper()
	return sendWith(t, c, context.Background())
}

func sendWith(t *testing.T, c Carrier, ctx context.Context) (Receipt, *Error) {
	t.Helper()
	receipt, err := c.Send(ctx, sample())
	if receipt.Carrier != c.Name() {
		t.Errorf("the receipt is of %q", receipt.Carrier)
	}
	if err == nil {
		return receipt, nil
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%T is no *Error", err)
	}
	for _, secret := range []string{private, "739154", "13812345678", "t0ken"} {
		if strings.Contains(fmt.Sprintf("%v %+v %#v %v", err, *e, *e, receipt), secret) {
			t.Errorf("%q stands in %v", secret, err)
		}
	}
	return receipt, e
}

func TestContract(t *testing.T) {
	for _, r := range rigs() {
		t.Run(r.name, func(t *testing.T) {
			t.Run("accepted", func(t *testing.T) {
				f := newFake(t, r, says(r.taken))
				c := r.make(t, f.URL)
				receipt, fail := send(t, c)
				if fail != nil || receipt.ID != r.id || f.requests() != 1 {
					t.Errorf("%+v, %v, %d requests", receipt, fail, f.requests())
				}
			})
			for name, o := range r.cases {
				t.Run(name, func(t *testing.T) { wantOutcome(t, r, o) })
			}
			everyCarrier(t, r)
		})
	}
}

func wantOutcome(t *testing.T, r rig, o outcome) {
	f := newFake(t, r, says(o.said))
	_, fail := send(t, r.make(t, f.URL))
	if fail == nil {
		t.Fatal("taken for accepted")
	}
	if fail.Class != o.class || fail.Reason != o.reason || fail.Hold != o.hold || fail.Stage != StageAnswer {
		t.Errorf("%v: reason %q, hold %v; want %v, %q, %v", fail, fail.Reason, fail.Hold, o.class, o.reason, o.hold)
	}
	if f.requests() != 1 {
		t.Errorf("%d requests", f.requests())
	}
}

// everyCarrier is what holds whatever the carrier's words are.
func everyCarrier(t *testing.T, r rig) {
	const quoting = `{"message":"` + private + ` 739154 +8613812345678"}`
	for name, c := range map[string]struct {
		respond http.HandlerFunc
		class   delivery.Class
		wait    time.Duration
	}{
		"too many, with a wait": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, quoting)
		}, delivery.Temporary, 7 * time.Second},
		"away, with a date": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", "Fri, 20 Nov 2026 13:00:00 GMT")
			w.Header().Set("Retry-After", "Fri, 20 Nov 2026 13:00:09 GMT")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, delivery.Temporary, 9 * time.Second},
		"our key is refused":    {says(said{http.StatusUnauthorized, quoting}), delivery.Temporary, 0},
		"the server broke":      {says(said{http.StatusInternalServerError, quoting}), delivery.Unknown, 0},
		"a gateway gave up":     {says(said{http.StatusGatewayTimeout, "<html>" + quoting}), delivery.Unknown, 0},
		"no answer":             {hijacked(""), delivery.Unknown, 0},
		"half a status line":    {hijacked("HTTP/1.1 20"), delivery.Unknown, 0},
		"half an answer":        {hijacked("HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n" + r.taken.body[:3]), delivery.Unknown, 0},
		"an endless answer":     {hijacked("HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat(" ", maxAnswer+1)), delivery.Unknown, 0},
		"200 and no such thing": {says(said{http.StatusOK, quoting}), delivery.Unknown, 0},
		"another address": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, delivery.Temporary, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, r, c.respond)
			_, fail := send(t, r.make(t, f.URL))
			if fail == nil || fail.Class != c.class || fail.RetryAfter != c.wait {
				t.Errorf("%v, wait %v; want %v, %v", fail, fail.RetryAfter, c.class, c.wait)
			}
			if f.requests() != 1 {
				t.Errorf("%d requests: a message may go out twice", f.requests())
			}
		})
	}
	t.Run("the wait is over after the request", func(t *testing.T) { givenUp(t, r) })
	t.Run("nobody listens", func(t *testing.T) {
		if _, fail := send(t, r.make(t, fmt.Sprint("http://127.0.0.1:", parts.FreePort(t)))); fail == nil || fail.Class != delivery.Temporary || fail.Stage != StageDial {
			t.Errorf("%v", fail)
		}
	})
	t.Run("over before it began", func(t *testing.T) {
		f := newFake(t, r, says(r.taken))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, fail := sendWith(t, r.make(t, f.URL), ctx); fail == nil || fail.Class != delivery.Temporary || f.requests() != 0 {
			t.Errorf("%v, %d requests", fail, f.requests())
		}
	})
	t.Run("no handshake", func(t *testing.T) {
		f := newFake(t, r, says(r.taken)) // speaks no TLS
		if _, fail := send(t, r.make(t, strings.Replace(f.URL, "http:", "https:", 1))); fail == nil || fail.Class != delivery.Temporary || f.requests() != 0 {
			t.Errorf("%v, %d requests", fail, f.requests())
		}
	})
	if r.token != nil {
		t.Run("a retry has the same token", func(t *testing.T) {
			f := newFake(t, r, says(said{http.StatusServiceUnavailable, ""}))
			c := r.make(t, f.URL)
			send(t, c)
			send(t, c)
			if len(f.tokens) != 2 || f.tokens[0] == "" || f.tokens[0] != f.tokens[1] {
				t.Errorf("tokens %q", f.tokens)
			}
		})
	}
}

// givenUp has the carrier read the whole request and then say nothing.
func givenUp(t *testing.T, r rig) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	end := make(chan struct{})
	f := newFake(t, r, func(http.ResponseWriter, *http.Request) { cancel(); <-end })
	t.Cleanup(func() { close(end) }) // before the server is closed
	if _, fail := sendWith(t, r.make(t, f.URL), ctx); fail == nil || fail.Class != delivery.Unknown || !errors.Is(fail, context.Canceled) {
		t.Errorf("%v", fail)
	}
}

// A carrier that reads and never answers ends with the attempt's own time, and it is not known what it did.
func TestTimeoutAfterTheRequestIsUnknown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	read := make(chan bool, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, err := http.ReadRequest(bufio.NewReader(conn))
				read <- err == nil
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}()
		}
	}()
	for wait := 50 * time.Millisecond; ; wait *= 2 { // a busy machine may not come to write in the first
		g := genericRig().description("http://" + l.Addr().String())
		g.Timeout = wait
		c, err := NewGeneric(g)
		if err != nil {
			t.Fatal(err)
		}
		_, fail := send(t, c)
		if fail == nil {
			t.Fatal("accepted by nobody")
		}
		if fail.Stage == StageDial {
			continue
		}
		if <-read && fail.Class != delivery.Unknown {
			t.Errorf("%v", fail)
		}
		return
	}
}

// Only bytes after the connection was got are the request's, and none leaves once it was given up.
func TestDeparture(t *testing.T) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	defer func() { _ = near.Close() }()
	for _, written := range []bool{false, true} {
		conn := &counted{Conn: near}
		if _, err := conn.Write([]byte("handshake")); err != nil {
			t.Fatal(err)
		}
		var d departure
		if d.trace(); d.left() {
			t.Error("left without a connection")
		}
		d.trace().GotConn(httptrace.GotConnInfo{Conn: conn})
		if written {
			_, _ = conn.Write([]byte("P"))
		}
		if d.left() != written {
			t.Errorf("left: %v", !written)
		}
		if _, err := conn.Write([]byte("OST")); err == nil {
			t.Error("the rest left after that")
		}
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "-5": 0, "1.5": 0, "99999999": maxRetryAfter, "99999999999999999999": 0,
		"Fri, 20 Nov 2026 13:00:09 GMT": 9 * time.Second, "Fri, 20 Nov 2026 12:00:00 GMT": 0, "Fri, 20 Nov 2030 12:00:00 GMT": maxRetryAfter,
	} {
		if got := retryAfter(http.Header{"Date": {"Fri, 20 Nov 2026 13:00:00 GMT"}, "Retry-After": {text}}); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
