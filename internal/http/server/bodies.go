package server

import (
	"bytes"
	"io"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/logs"
)

// These constants bound the bodies in memory, in bytes. A body's signature can be verified only
// when the body is complete. Without a bound, any client could fill the memory: it would open many
// connections and send most of a large body on each.
const (
	uncountedBody    = 4 << 10 // the beginning of each body is not counted: requests for codes are usually shorter
	maxBodies        = 8 << 20 // the most counted bytes of all bodies in this process
	maxNetworkBodies = maxBodies / 2
)

// bodyMemory bounds the bytes of bodies in a process's memory. The bytes of a body, except the
// first uncountedBody bytes, count from when they are read until the request is answered. The
// bodies of one network, a /24 or /48, may use half of the bytes. bodyMemory is safe for concurrent
// use.
type bodyMemory struct {
	logger *slog.Logger

	mu       sync.Mutex
	all      int
	networks map[netip.Prefix]int
	lines    logs.Throttle
}

// Bound is middleware that ends the reading of a body with a 503 if the body would exceed the
// bounds.
func (m *bodyMemory) Bound(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if r.Body == nil || r.ContentLength >= 0 && r.ContentLength <= uncountedBody { // -1: unknown
			return next(c)
		}
		_, network := networksOf(ClientIP(c))
		b := &boundBody{ReadCloser: r.Body, memory: m, network: network}
		r.Body = b
		defer b.release()
		return next(c)
	}
}

// take counts n more bytes of a network's bodies. If the bytes would exceed a bound, take counts
// nothing and returns false.
func (m *bodyMemory) take(network netip.Prefix, n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all+n > maxBodies || m.networks[network]+n > maxNetworkBodies {
		if count, due := m.lines.Add("", time.Now()); due {
			m.logger.Warn("bodies refused: too many bytes are being read", "count", count, "network", network, logs.SeeConnections)
		}
		return false
	}
	m.all += n
	m.networks[network] += n
	return true
}

// release gives back what take counted.
func (m *bodyMemory) release(network netip.Prefix, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all -= n
	if m.networks[network] -= n; m.networks[network] == 0 {
		delete(m.networks, network)
	}
}

// boundBody counts the bytes that are read from the body of one request.
type boundBody struct {
	io.ReadCloser
	memory  *bodyMemory
	network netip.Prefix // of the client; the zero Prefix of a client without an address
	read    int
	counted int
}

// Read implements io.Reader. Errors: errBodiesFull (a *Problem), and the errors of the body.
func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += n
	if more := b.read - uncountedBody - b.counted; more > 0 {
		if !b.memory.take(b.network, more) {
			return 0, errBodiesFull
		}
		b.counted += more
	}
	return n, err
}

func (b *boundBody) release() {
	if b.counted > 0 {
		b.memory.release(b.network, b.counted)
	}
}

// maxFormFields is how many fields a form may have. A parsed field takes about 120 bytes besides
// its text, so the limit on the body does not bound the memory.
const maxFormFields = 128

// boundForm is middleware that ends the reading of a form with a 400 if the form has too many
// fields. Carriers' receipts may have any number, because they are read only after their token is
// checked.
func boundForm(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		media, _, _ := strings.Cut(r.Header.Get(echo.HeaderContentType), ";")
		form := strings.EqualFold(strings.TrimSpace(media), echo.MIMEApplicationForm)
		if r.Body != nil && form && !strings.HasPrefix(r.URL.Path, ReceiptsPath) {
			r.Body = &formBody{ReadCloser: r.Body}
		}
		return next(c)
	}
}

// formBody counts the fields of one form as they are read.
type formBody struct {
	io.ReadCloser
	separators int
}

// Read implements io.Reader. Errors: errTooManyFormFields (a *Problem), and the errors of the body.
func (b *formBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.separators += bytes.Count(p[:n], []byte("&")); b.separators >= maxFormFields {
		return 0, errTooManyFormFields
	}
	return n, err
}

var errTooManyFormFields = &Problem{
	Kind: BadRequest, Detail: "A form may have at most " + strconv.Itoa(maxFormFields) + " fields.", closes: true,
}

// errBodiesFull is the 503 for a request whose body does not fit into the memory for bodies.
var errBodiesFull = func() *Problem {
	p := unavailableProblem("Too many large bodies are being read. Nothing was done.", unavailableWait)
	p.closes = true
	return p
}()
