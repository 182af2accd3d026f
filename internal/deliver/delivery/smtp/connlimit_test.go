package smtp

import (
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
)

// Each case is what a server did, and how many connections it may then get.
func TestConnLimitLearnsFromAnswers(t *testing.T) {
	start := time.Now()
	const least, begin, most = 2, 4, 9
	accept := func(l *connLimit, n connCounts) { l.noteAccepted(n) }
	for _, c := range []struct {
		name string
		did  func(l *connLimit)
		// after is the time since start, and unproven the connections being tried.
		after    time.Duration
		unproven int
		now      int // result of max
		soon     int // result of maxSoon
	}{
		{name: "nothing yet: two trials", did: func(*connLimit) {}, now: 6, soon: 7},
		{name: "one trial is open", did: func(*connLimit) {}, unproven: 1, now: 6, soon: 7},
		{name: "two trials are open", did: func(*connLimit) {}, unproven: 2, now: 4, soon: 7},
		{name: "six work", did: func(l *connLimit) { accept(l, connCounts{open: 5, quits: 1}) }, now: 8, soon: 9},
		{name: "nine work", did: func(l *connLimit) { accept(l, connCounts{open: 9}) }, now: 9, soon: 9},
		{name: "the unproven do not work", did: func(l *connLimit) { accept(l, connCounts{open: 7, unproven: 2}) }, now: 7, soon: 8},
		{name: "fewer work than did", did: func(l *connLimit) { accept(l, connCounts{open: 1}) }, now: 6, soon: 7},
		{
			name: "the sixth is refused", did: func(l *connLimit) { l.connRefused(connCounts{open: 5, unproven: 1, quits: 1}, false, start) },
			after: growAfterRefusal - 1, now: 5, soon: 5,
		},
		{
			name: "ten minutes later: one trial", did: func(l *connLimit) { l.connRefused(connCounts{open: 6, unproven: 1}, false, start) },
			after: growAfterRefusal, now: 6, soon: 7,
		},
		{
			name: "and no second trial", did: func(l *connLimit) { l.connRefused(connCounts{open: 6, unproven: 1}, false, start) },
			after: growAfterRefusal, unproven: 1, now: 5, soon: 7,
		},
		{
			name: "the only one is refused", did: func(l *connLimit) { l.connRefused(connCounts{open: 1, unproven: 1}, false, start) },
			after: growAfterFault - 1, now: 1, soon: 1,
		},
		{
			name: "a minute later: one trial", did: func(l *connLimit) { l.connRefused(connCounts{open: 1, unproven: 1}, false, start) },
			after: growAfterFault, now: 2, soon: 3,
		},
		{
			name: "all were refused, then one mail is accepted", did: func(l *connLimit) {
				l.connRefused(connCounts{open: 1, unproven: 1}, false, start)
				accept(l, connCounts{open: 1})
			},
			now: 6, soon: 7,
		},
		{
			name: "two were refused, then one mail is accepted", did: func(l *connLimit) {
				l.connRefused(connCounts{open: 3, unproven: 1}, false, start)
				accept(l, connCounts{open: 2})
			},
			now: 2, soon: 2,
		},
		{
			name: "a silent refusal beside others that work", did: func(l *connLimit) {
				l.noteOpened(time.Second, start)
				l.connRefused(connCounts{open: 4, unproven: 1}, true, start.Add(aliveFor-1))
			},
			after: time.Minute, now: 3, soon: 3,
		},
		{
			name: "a silent refusal of a server that is down", did: func(l *connLimit) {
				l.noteAnswered(start)
				l.connRefused(connCounts{open: 4, unproven: 1}, true, start.Add(aliveFor))
			},
			after: time.Minute, now: 6, soon: 7,
		},
		{
			name: "a silent refusal of the only one", did: func(l *connLimit) {
				l.noteAnswered(start)
				l.connRefused(connCounts{open: 1, unproven: 1}, true, start)
			},
			now: 6, soon: 7,
		},
		{
			name: "it is silent after it refused others: the next mail ends the limit", did: func(l *connLimit) {
				l.connRefused(connCounts{open: 3, unproven: 1}, false, start)
				l.connRefused(connCounts{open: 1, unproven: 1}, true, start)
				accept(l, connCounts{open: 1})
			},
			now: 6, soon: 7,
		},
		{
			name: "eight worked, then the only one is silent", did: func(l *connLimit) {
				accept(l, connCounts{open: 8})
				l.connRefused(connCounts{open: 1, unproven: 1}, true, start)
				accept(l, connCounts{open: 1})
			},
			now: 9, soon: 9,
		},
		{
			name: "it is down after it refused the third: that limit lasts", did: func(l *connLimit) {
				l.noteAnswered(start)
				l.connRefused(connCounts{open: 3, unproven: 1}, false, start)
				l.connRefused(connCounts{open: 2, unproven: 1}, true, start.Add(aliveFor))
				accept(l, connCounts{open: 1})
			},
			now: 2, soon: 2,
		},
		{
			name: "a mail is refused", did: func(l *connLimit) { l.mailRefused(connCounts{open: 4, quits: 2}, start) },
			after: growAfterRefusal - 1, now: 5, soon: 5,
		},
		{
			name: "a mail is refused over one of three", did: func(l *connLimit) { l.mailRefused(connCounts{open: 3}, start) },
			after: growAfterFault, now: 2, soon: 2,
		},
		{
			name: "a mail is refused over one of two", did: func(l *connLimit) { l.mailRefused(connCounts{open: 2}, start) },
			now: 6, soon: 7,
		},
		{
			name: "after a backlog", did: func(l *connLimit) {
				accept(l, connCounts{open: 8})
				l.backlogEnded(connCounts{open: 5}, start)
			},
			now: 7, soon: 8,
		},
		{
			name: "long after a backlog", did: func(l *connLimit) {
				accept(l, connCounts{open: 8})
				l.backlogEnded(connCounts{open: 2}, start)
			},
			now: 6, soon: 7,
		},
		{
			name: "a backlog ends while a refusal lasts", did: func(l *connLimit) {
				l.connRefused(connCounts{open: 8, unproven: 1}, false, start)
				l.backlogEnded(connCounts{open: 2}, start)
			},
			now: 7, soon: 7,
		},
	} {
		l := newConnLimit(least, begin, most)
		c.did(&l)
		servertest.Same(t, c.name+": now", l.max(c.unproven, start.Add(c.after)), c.now)
		servertest.Same(t, c.name+": soon", l.maxSoon(start.Add(c.after)), c.soon)
	}
}

// connRefused returns true only if there are other connections. mailRefused returns true if more
// than `least` connections are open.
func TestConnLimitSaysWhetherOthersWork(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		n      connCounts
		silent bool
		closed bool // the caller closes the connection over which a mail was refused
		others bool
	}{
		{n: connCounts{open: 1, unproven: 1}},
		{n: connCounts{open: 1, unproven: 1}, silent: true},
		{n: connCounts{open: 2, unproven: 1}, others: true},
		{n: connCounts{open: 2, unproven: 1}, silent: true, others: true},
		{n: connCounts{open: 1, unproven: 1, quits: 1}, others: true},
		{n: connCounts{open: 3}, others: true, closed: true},
		{n: connCounts{open: 2, quits: 5}, others: true},
	} {
		l := newConnLimit(2, 4, 9)
		l.noteAnswered(now)
		servertest.Same(t, "others work", l.connRefused(c.n, c.silent, now), c.others)
		servertest.Same(t, "closes", l.mailRefused(c.n, now), c.closed)
	}
}

// If a new connection waits twice as long as the slowest earlier one, the server may be refusing it
// silently, while others work.
func TestConnLimitNoticesSilence(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		n      connCounts
		waited time.Duration
		since  time.Duration // time since the server last accepted a connection
		want   bool
	}{
		{n: connCounts{open: 2, unproven: 1}, waited: 6 * time.Second, want: true},
		{n: connCounts{open: 2, unproven: 1}, waited: 6*time.Second - 1},
		{n: connCounts{open: 2, unproven: 2}, waited: 6 * time.Second},
		{n: connCounts{open: 2, unproven: 1}, waited: 6 * time.Second, since: aliveFor - 1, want: true},
		{n: connCounts{open: 2, unproven: 1}, waited: 6 * time.Second, since: aliveFor},
	} {
		l := newConnLimit(2, 4, 9)
		l.noteOpened(3*time.Second, now)
		l.noteOpened(time.Second, now)
		servertest.Same(t, "silent", l.isSilent(c.n, c.waited, now.Add(c.since)), c.want)
	}
	l := newConnLimit(2, 4, 9)
	l.firstBegins(now)
	n := connCounts{open: 2, unproven: 1}
	servertest.Same(t, "the first may still be opening", l.isSilent(n, 0, now.Add(shortTimeout-1)), true)
	servertest.Same(t, "the first failed", l.isSilent(n, 0, now.Add(shortTimeout)), false)
}

// If a pool begins with one connection, no short fault has caused its limit of one, so this limit
// lasts as long as any other.
func TestConnLimitThatBeganWithOne(t *testing.T) {
	start := time.Now()
	l := newConnLimit(1, 1, 9)
	l.connRefused(connCounts{open: 2, unproven: 1}, false, start)
	servertest.Same(t, "after a minute", l.max(0, start.Add(growAfterFault)), 1)
	servertest.Same(t, "after ten", l.max(0, start.Add(growAfterRefusal)), 2)
}
