package quota

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// proxy stands between client and server and can lose a reply: the server has run the command, the client never learns.
type proxy struct {
	listener net.Listener
	server   string
	drop     atomic.Bool
	dropped  atomic.Int64
}

func newProxy(t *testing.T, server string) *proxy {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	p := &proxy{listener: listener, server: server}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// dropReply loses what the server says next, and the connection with it.
func (p *proxy) dropReply() { p.drop.Store(true) }

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp4", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	go io.Copy(server, client)
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		if p.drop.CompareAndSwap(true, false) {
			p.dropped.Add(1)
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
