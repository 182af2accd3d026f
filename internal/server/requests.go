package server

import (
	"encoding/binary"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"sendcode/quota"
)

// Requests bounds how many requests a network makes in a minute, /32 for IPv4 and /64 for IPv6, refused ones included in no count.
// It is decided in this process, so that a flood costs neither Redis nor the log anything.
//
// The window slides: of the minute before, as much is counted as still lies within the last 60 s (a sliding window counter, exact
// where requests come evenly). Memory is bounded: each of two minutes has room for maxNetworks networks, about 5 MB in all. When a
// minute is full, a network that is not in it is counted with its /24 or /48; when these are too many as well, it is let in
// without a count. Attackers with that many networks stop no other client, and the rules on sends decide as ever. A client without an
// address, as on a Unix socket, shares one count with all such clients.
type Requests struct {
	limit   atomic.Int64
	logger  *slog.Logger
	refused func()
	now     func() time.Time

	mu      sync.Mutex
	minute  int64 // number of the minute that counts are of
	counts  map[networkID]int64
	before  map[networkID]int64 // of the minute before
	told    time.Time           // when the log was last told
	untold  int                 // refused since
	largest int                 // networks that a minute has room for
}

// networkID is the first bits of an address, without the pointer that netip.Prefix has.
type networkID struct {
	high uint64
	bits uint8 // 255: there is no address
}

const (
	window      = time.Minute
	maxNetworks = 50_000 // and as many wider ones
)

// NewRequests makes a limiter of so many requests in a minute; 0 lets in all. Each refusal calls refused.
func NewRequests(limit int, logger *slog.Logger, refused func(), now func() time.Time) *Requests {
	r := &Requests{logger: logger, refused: refused, now: now, counts: map[networkID]int64{}, before: map[networkID]int64{},
		largest: maxNetworks}
	r.SetLimit(limit)
	return r
}

// SetLimit changes the limit from now on.
func (r *Requests) SetLimit(limit int) { r.limit.Store(int64(limit)) }

// Admit counts a request of an address, or says how long its network has to wait.
func (r *Requests) Admit(ip netip.Addr) (wait time.Duration, ok bool) {
	limit := r.limit.Load()
	if limit <= 0 {
		return 0, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.turn(now)
	id, fits := r.find(ip)
	if !fits {
		return 0, true
	}
	since := time.Duration(now.UnixNano() - r.minute*int64(window))
	if wait := waitFor(r.before[id], r.counts[id], limit, since); wait > 0 {
		r.refuse(ip, now)
		return wait, false
	}
	r.counts[id]++
	return 0, true
}

// turn begins a new minute when it has come.
func (r *Requests) turn(now time.Time) {
	minute := now.UnixNano() / int64(window)
	switch {
	case minute == r.minute:
		return
	case minute == r.minute+1:
		r.before, r.counts = r.counts, map[networkID]int64{}
	default: // nothing came for a while, or the clock was set
		r.before, r.counts = map[networkID]int64{}, map[networkID]int64{}
	}
	r.minute = minute
}

// find names what an address is counted in: its own network, or a wider one where there is no room.
func (r *Requests) find(ip netip.Addr) (id networkID, fits bool) {
	narrow, wide := networksOf(ip)
	if r.knows(narrow) || len(r.counts) < r.largest {
		return narrow, true
	}
	return wide, r.knows(wide) || len(r.counts) < 2*r.largest
}

func (r *Requests) knows(id networkID) bool {
	return r.counts[id] > 0 || r.before[id] > 0 && len(r.counts) < 2*r.largest
}

func networksOf(ip netip.Addr) (narrow, wide networkID) {
	ip = ip.Unmap()
	switch {
	case !ip.IsValid():
		none := networkID{bits: 255}
		return none, none
	case ip.Is4():
		four := ip.As4()
		high := uint64(binary.BigEndian.Uint32(four[:])) << 32
		return networkID{high, 32}, networkID{high &^ (1<<40 - 1), 24}
	}
	sixteen := ip.As16()
	high := binary.BigEndian.Uint64(sixteen[:8])
	return networkID{high, 64}, networkID{high &^ (1<<16 - 1), 48}
}

// waitFor is how long until one more is let in, at an instant of a minute with so many in it and in the one before; 0: it is now.
func waitFor(before, count, limit int64, since time.Duration) time.Duration {
	free := func(n, room int64) time.Duration { // how far into a minute n of the one before count as no more than room
		if n <= room {
			return 0
		}
		return window - time.Duration(int64(window)/n*room)
	}
	if count < limit {
		return max(0, free(before, limit-1-count)-since)
	}
	return window - since + free(count, limit-1)
}

// refuse counts a refusal, and tells the log of those once a minute.
func (r *Requests) refuse(ip netip.Addr, now time.Time) {
	r.refused()
	r.untold++
	if now.Sub(r.told) < window {
		return
	}
	r.logger.Warn("requests of browsers are refused: their network makes too many", "count", r.untold, "network", masked(ip),
		"limit", r.limit.Load())
	r.told, r.untold = now, 0
}

// masked is as much of an address as the log of sends keeps.
func masked(ip netip.Addr) string {
	bits := 48
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		bits = 24
	}
	p, err := ip.Prefix(bits)
	if err != nil || !ip.IsValid() {
		return ""
	}
	return p.String()
}

// TooMany is the answer to a request that came too soon.
func TooMany(wait time.Duration) *Problem {
	seconds := quota.Seconds(wait)
	return &Problem{
		Kind: TooManyRequests, Detail: "Too many requests came from your network. Try again in " + strconv.Itoa(seconds) + " s.",
		Header: http.Header{"Retry-After": {strconv.Itoa(seconds)}}, Extra: map[string]any{"retry_after": seconds},
	}
}
