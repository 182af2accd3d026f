package server

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
)

type requestRig struct {
	*RequestLimiter
	at      time.Time
	refused int
	log     bytes.Buffer
}

func newRequestRig(limit int) *requestRig {
	r := &requestRig{at: time.Unix(0, 0).Add(1000 * time.Hour)}
	r.RequestLimiter = NewRequestLimiter(limit, slog.New(slog.NewTextHandler(&r.log, nil)), func() { r.refused++ },
		func() time.Time { return r.at })
	return r
}

// from makes n requests from an address and returns how many of them are admitted.
func (r *requestRig) from(ip string, n int) (in int) {
	for range n {
		if _, ok := r.Admit(netip.MustParseAddr(ip)); ok {
			in++
		}
	}
	return in
}

func TestRequestLimiterBoundsANetwork(t *testing.T) {
	r := newRequestRig(300)
	if in := r.from("192.0.2.1", 1000); in != 300 || r.refused != 700 {
		t.Errorf("%d of 1000 let in, %d refused", in, r.refused)
	}
	for _, ip := range []string{"192.0.2.2", "2001:db8::1", "2001:db8:0:1::1"} {
		servertest.Same(t, ip, r.from(ip, 301), 300)
	}
	for _, ip := range []string{"::ffff:192.0.2.1", "2001:db8:0:0:ffff::2%eth0"} { // addresses of networks that were counted
		servertest.Same(t, ip, r.from(ip, 301), 0)
	}
	r.SetLimit(0)
	servertest.Same(t, "let in without a limit", r.from("192.0.2.1", 1000), 1000)
}

// The wait in a refusal is exact: one more request is admitted when the wait ends, and none
// earlier. This holds whenever the earlier requests came.
func TestRequestLimiterAdmitsAfterTheWait(t *testing.T) {
	for _, limit := range []int{1, 7, 300} {
		for _, into := range []time.Duration{0, 17 * time.Second, requestWindow - 1} {
			r := newRequestRig(limit)
			r.at = r.at.Add(into)
			r.from("192.0.2.1", limit)
			for range 3 * limit {
				wait, ok := r.Admit(netip.MustParseAddr("192.0.2.1"))
				if ok || wait <= 0 || wait > 2*requestWindow {
					t.Fatalf("limit %d: %v, %v", limit, wait, ok)
				}
				r.at = r.at.Add(wait - time.Microsecond)
				servertest.Same(t, "let in before the wait", r.from("192.0.2.1", 1), 0)
				r.at = r.at.Add(time.Microsecond)
				servertest.Same(t, "let in after the wait", r.from("192.0.2.1", 1), 1)
			}
		}
	}
}

// In any 60 s that begin with a rush, at most the limit is admitted, apart from a small error for
// uneven requests. After a pause, all requests are admitted.
func TestRequestLimiterSlides(t *testing.T) {
	r := newRequestRig(300)
	r.at = r.at.Add(59 * time.Second)
	in := r.from("192.0.2.1", 1000)
	r.at = r.at.Add(2 * time.Second)
	if in += r.from("192.0.2.1", 1000); in > 310 {
		t.Errorf("%d let in within 2 s", in)
	}
	r.at = r.at.Add(2 * requestWindow)
	servertest.Same(t, "let in after a pause", r.from("192.0.2.1", 1000), 300)
	r.at = r.at.Add(-time.Hour)
	servertest.Same(t, "let in after the clock was set back", r.from("192.0.2.1", 1000), 300)
}

// A clock that steps back across the begin of a minute gives no network its requests anew.
func TestRequestLimiterAfterAStepBack(t *testing.T) {
	r := newRequestRig(300)
	r.at = r.at.Truncate(requestWindow).Add(requestWindow - 10*time.Millisecond)
	in := r.from("192.0.2.1", 1000)
	for range 5 {
		r.at = r.at.Add(11 * time.Millisecond)
		in += r.from("192.0.2.1", 1000)
		r.at = r.at.Add(-2 * time.Millisecond)
		in += r.from("192.0.2.1", 1000)
		r.at = r.at.Add(-9 * time.Millisecond)
	}
	if in > 310 {
		t.Errorf("%d let in", in)
	}
}

// If there are too many networks, several of them are counted together. Beyond a further bound,
// requests of new networks are admitted without a count. The memory stays bounded.
func TestRequestLimiterOfManyNetworks(t *testing.T) {
	r := newRequestRig(3)
	r.largest = 100
	address := func(i int) string { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String() }
	for i := range 100 {
		r.from(address(i), 1)
	}
	servertest.Same(t, "let in of two networks in one /24, counted together", r.from(address(200), 2)+r.from(address(201), 2), 3)
	servertest.Same(t, "let in of a network with a count of its own", r.from(address(0), 5), 2)
	r.at = r.at.Add(requestWindow)
	for i := range 100_000 {
		r.from(address(i), 1)
	}
	if len(r.counts) > 200 || len(r.previous) > 200 {
		t.Errorf("%d and %d networks are kept", len(r.counts), len(r.previous))
	}
	servertest.Same(t, "let in where there is no room for a count", r.from("192.0.2.1", 5), 5)
}

func TestRequestLimiterLogsOnceAMinute(t *testing.T) {
	r := newRequestRig(1)
	for range 120 {
		r.from("192.0.2.77", 10)
		r.at = r.at.Add(time.Second)
	}
	if lines := strings.Count(r.log.String(), "\n"); lines < 2 || lines > 3 ||
		strings.Contains(r.log.String(), "192.0.2.77") || !strings.Contains(r.log.String(), "192.0.2.0/24") {
		t.Errorf("%d lines: %s", lines, r.log.String())
	}
}
