package smtp

import "time"

// connLimit is an adaptive concurrency limit: it learns from a server's answers how many
// simultaneous connections the server accepts. It is not safe for concurrent use; the pool's lock
// guards it.
//
// It begins with `begin` connections. It allows more connections than have worked so far only while
// fewer open connections are unproven than trials returns. If the server says that there are too
// many connections or mails of this service, the limit is the number of the other connections for
// growAfterRefusal, or for a shorter time; see isLimitedByRefusal. After that, one more connection
// is tried.
type connLimit struct {
	least, begin, most int

	provenConns int           // connections that may be open at once without a trial
	refused     time.Time     // when the server last refused a connection or a mail as one too many; zero: never, or accepted has reset it
	refusesAll  bool          // the server refused the only connection, and has accepted no mail since
	aliveAt     time.Time     // when the server last answered a mail or accepted a connection; see firstBegins
	slowest     time.Duration // the longest time until a connection was open
}

func newConnLimit(least, begin, most int) connLimit {
	return connLimit{least: least, begin: begin, most: most, provenConns: begin}
}

// connCounts counts a pool's connections by state.
type connCounts struct {
	open     int // sessions in use, being opened, or idle
	unproven int // open connections that are not proven; see session.proven
	quits    int // sessions that are saying QUIT; not counted in the field open
}

// total returns the number that the server sees.
func (c connCounts) total() int { return c.open + c.quits }

const (
	// growAfterRefusal is how long a limit that a refusal set lasts.
	growAfterRefusal = 10 * time.Minute
	growAfterFault   = time.Minute // replaces growAfterRefusal if refusals left one connection; see isLimitedByRefusal
	maxTrials        = 2
	// aliveFor is how long after connLimit.aliveAt a server counts as working.
	aliveFor = 10 * time.Second
)

// max returns how many connections there may be now, if unproven of them have served no mail yet.
func (l *connLimit) max(unproven int, now time.Time) int {
	trials := l.trials(now)
	if unproven >= trials {
		return l.provenConns
	}
	return min(l.most, l.provenConns+trials)
}

// maxSoon returns the limit that Client.ConnLimit reports.
func (l *connLimit) maxSoon(now time.Time) int {
	if trials := l.trials(now); trials > 0 {
		return min(l.most, l.provenConns+trials+1)
	}
	return l.provenConns
}

// trials returns how many unproven connections there may be at once, beyond the number that has
// worked. Before the first refusal there are two, so that a slow mail on one new connection does
// not prevent a second one. While isLimitedByRefusal returns true there are none. After that there
// is one.
func (l *connLimit) trials(now time.Time) int {
	switch {
	case l.refused.IsZero():
		return maxTrials
	case l.isLimitedByRefusal(now):
		return 0
	}
	return 1
}

// isLimitedByRefusal reports whether a refusal still forbids more connections than have worked. A
// refusal forbids them for growAfterRefusal. But if refusals left only one connection of a pool
// that began with several, they forbid more for only growAfterFault: a short fault may have caused
// them, or the server may have counted connections of a process that has ended.
func (l *connLimit) isLimitedByRefusal(now time.Time) bool {
	lasts := growAfterRefusal
	if l.provenConns == 1 && l.begin > 1 {
		lasts = growAfterFault
	}
	return !l.refused.IsZero() && now.Sub(l.refused) < lasts
}

// firstBegins notes that a connection begins and no other is open. The server then counts as
// working for shortTimeout, since further connections may already be open when this one fails.
func (l *connLimit) firstBegins(now time.Time) { l.aliveAt = now.Add(shortTimeout - aliveFor) }

// noteAnswered notes that a mail left its connection usable.
func (l *connLimit) noteAnswered(now time.Time) { l.aliveAt = now }

// noteOpened notes that the server accepted a connection, and how long this took.
func (l *connLimit) noteOpened(took time.Duration, now time.Time) {
	l.aliveAt, l.slowest = now, max(l.slowest, took)
}

// noteAccepted notes that a connection has become proven; n already counts it as proven.
func (l *connLimit) noteAccepted(n connCounts) {
	if l.refusesAll {
		l.provenConns, l.refused, l.refusesAll = l.begin, time.Time{}, false
	}
	l.provenConns = max(l.provenConns, n.total()-n.unproven)
}

// connRefused notes that the server refused a connection, which n still counts. The limit is then
// the number of the other connections. If there are any, connRefused returns true, because the mail
// can be sent over one of them. If there are none, the limit is one until the server accepts a mail
// or isLimitedByRefusal returns false.
//
// A refusal is silent if the server did not reply. A silent refusal sets a limit only if there are
// other connections and aliveAt is less than aliveFor ago. Otherwise the result is false.
func (l *connLimit) connRefused(n connCounts, silent bool, now time.Time) (othersWork bool) {
	others := n.total() - 1
	if silent && (others == 0 || now.Sub(l.aliveAt) >= aliveFor) {
		l.refusesAll = others == 0 && l.isLimitedByRefusal(now)
		return false
	}
	l.provenConns, l.refused, l.refusesAll = max(1, others), now, others == 0
	return others > 0
}

// mailRefused notes that the server refused a mail with a reply that may mean too many connections
// or mails (delivery.Error.Crowded). If more than `least` connections are open, the limit is the
// number of the other connections, and the caller closes its connection. Unlike the limit of
// connRefused, this limit is never below `least`, because the server refused a mail and not the
// connection.
func (l *connLimit) mailRefused(n connCounts, now time.Time) (closes bool) {
	if n.open <= l.least {
		return false
	}
	l.provenConns, l.refused = n.total()-1, now
	return true
}

// backlogEnded notes that a connection was closed because no mail needed it.
func (l *connLimit) backlogEnded(n connCounts, now time.Time) {
	if !l.isLimitedByRefusal(now) {
		l.provenConns = max(min(l.provenConns, l.begin), n.open)
	}
}

// isSilent reports whether a server that has not replied to a new connection for this long may be
// refusing it. That is so if other connections work, and none took more than half of that time to
// open.
func (l *connLimit) isSilent(n connCounts, waited time.Duration, now time.Time) bool {
	return n.open > n.unproven && now.Sub(l.aliveAt) < aliveFor && waited >= 2*l.slowest
}
