package postgres

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"sendcode/internal/store/storetest"
)

// cut says what a proxy does to a connection on which a COMMIT is sent.
type cut int

const (
	cutNever    cut = iota
	cutRequest      // before the COMMIT reaches the server
	cutReply        // the server committed; none of its answers comes back
	cutBefore       // the server committed; only the answers before that to the COMMIT come back
	cutAfter        // after the answer to the COMMIT, before the server says that it is ready again
	forgeCommit     // the server committed; another answer than its own to the COMMIT comes back, and the connection stays
	forgeAll        // the server committed; an answer comes back in place of all its own, and the connection ends
	cutAny          // before the client's next message reaches the server, even if it is no COMMIT
)

// cuts describes the cuts of the next conversations that reach a COMMIT.
type cuts struct {
	mode            cut
	times           int
	thenUnreachable bool   // after the cut the server can't be reached until the proxy is armed again
	skip            int    // with cutAny: how many messages of the client pass before the cut
	forged          []byte // with forgeCommit and forgeAll: the answer
}

// proxy forwards the connections between a store and its database, and cuts them as a test wants.
type proxy struct {
	listener net.Listener
	target   string

	mu sync.Mutex
	cuts
	commits     int // COMMITs since it was armed and, with cutAny, messages that were cut
	unreachable bool
	turns       atomic.Int64 // how often a client sent something first, or after an answer of the server
}

// newProxy returns a proxy and the URL of the database through it.
func newProxy(t *testing.T, databaseURL string) (*proxy, string) {
	t.Helper()
	u := storetest.Must(url.Parse(databaseURL))(t)
	listener := storetest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{listener: listener, target: u.Host}
	var serving sync.WaitGroup
	serving.Go(p.serve)
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	u.Host = listener.Addr().String()
	return p, u.String()
}

func (p *proxy) arm(c cuts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts, p.commits, p.unreachable = c, 0, false
}

// seen returns proxy.commits, and whether the server can't be reached.
func (p *proxy) seen() (commits int, unreachable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.commits, p.unreachable
}

// next decides what happens to the client's next message.
func (p *proxy) next(commit bool) cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == cutAny && p.times > 0 {
		p.skip--
		commit = p.skip < 0
	}
	if !commit {
		return cutNever
	}
	if p.commits++; p.times == 0 {
		return cutNever
	}
	p.times--
	p.unreachable = p.thenUnreachable
	return p.mode
}

func (p *proxy) serve() {
	var pipes sync.WaitGroup
	defer pipes.Wait()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if _, unreachable := p.seen(); err != nil || unreachable {
			_ = client.Close()
			if server != nil {
				_ = server.Close()
			}
			continue
		}
		c := &conversation{proxy: p, client: client, server: server}
		pipes.Go(c.requests)
		pipes.Go(c.replies)
	}
}

// preparedCommit is the name that pgx gives to the prepared statement COMMIT, as a Bind has it
// after its unnamed portal.
var preparedCommit = func() []byte {
	sum := sha256.Sum256([]byte("COMMIT"))
	return append([]byte("\x00stmtcache_"+hex.EncodeToString(sum[:24])), 0)
}()

type conversation struct {
	*proxy
	client, server net.Conn
	answered       atomic.Bool
	pending        atomic.Int32 // the cut of the COMMIT that is on its way
}

func (c *conversation) end() { _, _ = c.client.Close(), c.server.Close() }

// requests forwards the client's messages. A Bind names its statement. The Bind of the COMMIT is
// the last Bind of its transaction, so all statements of the transaction came with it or before.
func (c *conversation) requests() {
	defer c.end()
	c.answered.Store(true)
	buffer := make([]byte, 1<<20)
	for {
		n, err := c.client.Read(buffer)
		if err != nil {
			return
		}
		if c.answered.Swap(false) {
			c.turns.Add(1)
		}
		commit := bytes.Contains(buffer[:n], preparedCommit) && !bytes.Contains(buffer[:n], []byte("COMMIT")) ||
			c.forges() && bytes.HasPrefix(buffer[:n], simpleCommit)
		switch mode := c.next(commit); mode {
		case cutNever:
		case cutRequest, cutAny:
			return
		default:
			c.pending.Store(int32(mode))
		}
		if _, err := c.server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// commitComplete is the server's answer to a COMMIT: CommandComplete, with its length and tag.
var commitComplete = []byte("C\x00\x00\x00\x0bCOMMIT\x00")

// readyForQuery is the server's answer to each Sync outside a transaction.
var readyForQuery = []byte("Z\x00\x00\x00\x05I")

// failure returns an ErrorResponse.
func failure(severity, state string) []byte {
	fields := "S" + severity + "\x00V" + severity + "\x00C" + state + "\x00Mforged\x00\x00"
	return append(binary.BigEndian.AppendUint32([]byte("E"), uint32(4+len(fields))), fields...)
}

// simpleCommit is a COMMIT that is sent alone, as a simple query (message type Q).
var simpleCommit = []byte("Q\x00\x00\x00\x0bCOMMIT\x00")

func (p *proxy) forges() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode == forgeCommit
}

func (p *proxy) answer() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.forged
}

// replies forwards the server's answers.
func (c *conversation) replies() {
	defer c.end()
	var held []byte
	buffer := make([]byte, 1<<20)
	for {
		n, err := c.server.Read(buffer)
		if err != nil {
			return
		}
		c.answered.Store(true)
		mode := cut(c.pending.Load())
		if mode == cutNever {
			if _, err := c.client.Write(buffer[:n]); err != nil {
				return
			}
			continue
		}
		held = append(held, buffer[:n]...)
		if at := bytes.Index(held, commitComplete); at >= 0 {
			switch mode {
			case cutBefore:
				_, _ = c.client.Write(held[:at])
			case cutAfter:
				_, _ = c.client.Write(held[:at+len(commitComplete)])
			case forgeAll:
				_, _ = c.client.Write(c.answer())
			case forgeCommit:
				if !bytes.HasSuffix(held, readyForQuery) { // the rest comes with the next read
					continue
				}
				if _, err := c.client.Write(slices.Concat(held[:at], c.answer(), readyForQuery)); err != nil {
					return
				}
				c.pending.Store(int32(cutNever))
				held = nil
				continue
			}
			return
		}
	}
}
