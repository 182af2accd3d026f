package server

import (
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sendcode/internal/base/logs"
)

// RequestLimiter bounds the requests of each network in a minute. A network is an IPv4 address or
// an IPv6 /64. Refused requests do not count. RequestLimiter decides in this process, so a flood
// costs Redis and the database nothing.
//
// RequestLimiter is a sliding window counter. It counts the requests of the current minute, and a
// part of the requests of the previous minute. This part is the share of the previous minute that
// lies within the last 60 s.
//
// If the clock steps back by less than a minute, the counts stay. After a larger step they begin
// anew.
//
// The memory of a RequestLimiter is bounded: the counts of both minutes need at most about 9 MB. If
// the current minute has counts of maxNetworks networks, a new network is counted together with its
// /24 or /48. If the wider networks are too many as well, a new network is admitted without a
// count, so that attackers with that many networks do not block other clients. The rules on sends
// still apply.
//
// All clients without an address, as on a Unix socket, share one count.
type RequestLimiter struct {
	limit   atomic.Int64
	logger  *slog.Logger
	refused func()
	now     func() time.Time

	mu       sync.Mutex
	minute   int64                  // the current minute, counted from 1970
	counts   map[netip.Prefix]int64 // requests in the current minute, by network
	previous map[netip.Prefix]int64 // requests in the minute before, by network
	lines    logs.Throttle          // about refusals
	largest  int                    // if counts has this many networks, new networks are counted by their wider network
}

const (
	requestWindow = time.Minute
	maxNetworks   = 50_000 // in a minute; beyond that, equally many wider networks are counted
)

// NewRequestLimiter makes a limiter that admits perMinute requests of each network in a minute. If
// perMinute is 0, it admits all requests. It calls the function refused for each refused request.
func NewRequestLimiter(perMinute int, logger *slog.Logger, refused func(), now func() time.Time) *RequestLimiter {
	r := &RequestLimiter{
		logger: logger, refused: refused, now: now, counts: map[netip.Prefix]int64{},
		previous: map[netip.Prefix]int64{},
		lines:    logs.Throttle{Every: requestWindow}, largest: maxNetworks,
	}
	r.SetLimit(perMinute)
	return r
}

// SetLimit changes the limit; counts stay.
func (r *RequestLimiter) SetLimit(limit int) { r.limit.Store(int64(limit)) }

// Admit counts a request from an address and returns true. If it refuses the request, it returns
// false and how long the network must wait.
func (r *RequestLimiter) Admit(ip netip.Addr) (wait time.Duration, ok bool) {
	limit := r.limit.Load()
	if limit <= 0 {
		return 0, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.rollMinute(now)
	id, fits := r.networkFor(ip)
	if !fits {
		return 0, true
	}
	since := max(0, time.Duration(now.UnixNano()-r.minute*int64(requestWindow)))
	if wait := retryAfter(r.previous[id], r.counts[id], limit, since); wait > 0 {
		r.recordRefusal(ip, now)
		return wait, false
	}
	r.counts[id]++
	return 0, true
}

// rollMinute replaces the counts if a new minute has begun.
func (r *RequestLimiter) rollMinute(now time.Time) {
	minute := now.UnixNano() / int64(requestWindow)
	switch {
	case minute == r.minute || minute == r.minute-1: // the latter if the clock has stepped back
		return
	case minute == r.minute+1:
		r.previous, r.counts = r.counts, map[netip.Prefix]int64{}
	default: // no request in the last minute, or the clock was set by more
		r.previous, r.counts = map[netip.Prefix]int64{}, map[netip.Prefix]int64{}
	}
	r.minute = minute
}

// networkFor returns the network in which an address is counted: the address's own network or, if
// there is no room, a wider one. If neither has room, fits is false.
func (r *RequestLimiter) networkFor(ip netip.Addr) (id netip.Prefix, fits bool) {
	narrow, wide := networksOf(ip)
	if r.hasCount(narrow) || len(r.counts) < r.largest {
		return narrow, true
	}
	return wide, r.hasCount(wide) || len(r.counts) < 2*r.largest
}

// hasCount reports whether a network has a count in the current minute, or had one in the previous
// minute and there is room for its count in the current minute.
func (r *RequestLimiter) hasCount(id netip.Prefix) bool {
	return r.counts[id] > 0 || r.previous[id] > 0 && len(r.counts) < 2*r.largest
}

// networksOf returns the network in which an address is counted first, a /32 or /64, and the wider
// network, a /24 or /48. Without an address, both are zero Prefixes.
func networksOf(ip netip.Addr) (narrow, wide netip.Prefix) {
	ip = ip.Unmap().WithZone("")
	bits, wideBits := 64, 48
	if ip.Is4() {
		bits, wideBits = 32, 24
	}
	narrow, _ = ip.Prefix(bits) // fails only without an address
	wide, _ = ip.Prefix(wideBits)
	return narrow, wide
}

// retryAfter returns how long a client must wait until one more request is admitted. If the result
// is 0, the request is admitted now. previous and count are the numbers of requests in the previous
// and the current minute, and since is the time since the current minute began.
func retryAfter(previous, count, limit int64, since time.Duration) time.Duration {
	// A minute had n requests. The weight of each request is the share of that minute that is still
	// in the sliding window. free returns how long after the end of that minute the sum of the
	// weights is no longer greater than room.
	free := func(n, room int64) time.Duration {
		if n <= room {
			return 0
		}
		return requestWindow - time.Duration(int64(requestWindow)/n*room)
	}
	if count < limit {
		return max(0, free(previous, limit-1-count)-since)
	}
	return requestWindow - since + free(count, limit-1)
}

// recordRefusal counts a refusal, and logs the number of refusals at most once a minute.
func (r *RequestLimiter) recordRefusal(ip netip.Addr, now time.Time) {
	r.refused()
	if n, due := r.lines.Add("", now); due {
		_, network := networksOf(ip) // the send log keeps the same network
		r.logger.Warn("browser requests refused: too many from one network", "count", n, "network", network,
			"limit", r.limit.Load(), logs.SeeAttack)
	}
}

// TooManyRequestsProblem returns the 429 for a request that RequestLimiter.Admit refused with this
// wait.
func TooManyRequestsProblem(wait time.Duration) *Problem {
	return &Problem{Kind: tooManyRequests, Detail: "Too many requests came from your network. Try again in {wait}.", Wait: wait}
}
