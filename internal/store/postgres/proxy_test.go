package postgres

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"

	"sendcode/internal/store/storetest"
)

// cut is where a proxy ends a connection on which a COMMIT of Begin travels.
type cut int

const (
	cutNever   cut = iota
	cutRequest     // before the server hears of it
	cutReply       // the server committed; no word of it comes back
	cutBefore      // the same, but all replies up to that of the COMMIT come back
	cutAfter       // after the reply to the COMMIT, before the server says that it is ready again
	cutAny         // whatever the client says next, before the server hears of it; not only a COMMIT
)

// proxy stands between a log and its database, and cuts the next `times` conversations that come to a COMMIT.
type proxy struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	mode    cut
	times   int
	commits int  // seen since it was armed
	leaving bool // after the cut there is no server any more
	away    bool
	spared  int // of cutAny
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

// locked calls f with what the proxy knows.
func locked[A any](p *proxy, f func() A) A {
	p.mu.Lock()
	defer p.mu.Unlock()
	return f()
}

func (p *proxy) arm(mode cut, times int) {
	locked(p, func() any {
		p.mode, p.times, p.commits, p.leaving, p.away, p.spared = mode, times, 0, false, false, 0
		return nil
	})
}

// after spares the next n times that the client says something.
func (p *proxy) after(n int) { locked(p, func() any { p.spared = n; return nil }) }

// leave makes the next cut the last that is heard of the server; arm brings it back.
func (p *proxy) leave() { locked(p, func() any { p.leaving = true; return nil }) }

func (p *proxy) gone() bool { return locked(p, func() bool { return p.away }) }

func (p *proxy) seen() int { return locked(p, func() int { return p.commits }) }

// next is what to do with the COMMIT that is seen now.
func (p *proxy) next() cut {
	return locked(p, func() cut {
		if p.commits++; p.times == 0 {
			return cutNever
		}
		p.times--
		p.away = p.leaving
		return p.mode
	})
}

func (p *proxy) any() bool {
	return locked(p, func() bool {
		if p.mode != cutAny || p.times == 0 {
			return false
		}
		p.spared--
		return p.spared < 0
	})
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
		if err != nil || p.gone() {
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

type conversation struct {
	*proxy
	client, server net.Conn

	state   sync.Mutex
	pending cut // of the COMMIT that is on its way
}

func (c *conversation) end() { _, _ = c.client.Close(), c.server.Close() }

// requests hands on what the client says. A Bind names its statement; that of the COMMIT is the last message but one,
// so all that it belongs to came with it or before.
func (c *conversation) requests() {
	defer c.end()
	buffer := make([]byte, 1<<20)
	for {
		n, err := c.client.Read(buffer)
		if err != nil {
			return
		}
		if c.any() || bytes.Contains(buffer[:n], append([]byte(stmtCommit), 0)) && !bytes.Contains(buffer[:n], []byte("COMMIT")) {
			mode := c.next()
			if mode == cutRequest || mode == cutAny {
				return
			}
			c.state.Lock()
			c.pending = mode
			c.state.Unlock()
		}
		if _, err := c.server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// committed is what the server says last of a COMMIT: CommandComplete, its length, and a tag.
var committed = []byte("C\x00\x00\x00\x0bCOMMIT\x00")

// replies hands on what the server says.
func (c *conversation) replies() {
	defer c.end()
	var held []byte
	buffer := make([]byte, 1<<20)
	for {
		n, err := c.server.Read(buffer)
		if err != nil {
			return
		}
		c.state.Lock()
		mode := c.pending
		c.state.Unlock()
		if mode == cutNever {
			if _, err := c.client.Write(buffer[:n]); err != nil {
				return
			}
			continue
		}
		held = append(held, buffer[:n]...)
		if at := bytes.Index(held, committed); at >= 0 {
			switch mode {
			case cutBefore:
				_, _ = c.client.Write(held[:at])
			case cutAfter:
				_, _ = c.client.Write(held[:at+len(committed)])
			}
			return
		}
	}
}
