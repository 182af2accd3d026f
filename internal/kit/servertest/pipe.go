package servertest

import "net"

// OneConn returns a listener that accepts only this connection, such as an end of a net.Pipe.
func OneConn(conn net.Conn) net.Listener {
	l := oneConn{make(chan net.Conn, 1)}
	l.conns <- conn
	close(l.conns)
	return l
}

type oneConn struct{ conns chan net.Conn }

// Accept implements net.Listener.
func (o oneConn) Accept() (net.Conn, error) {
	if conn, ok := <-o.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (oneConn) Close() error { return nil }

// Addr implements net.Listener.
func (oneConn) Addr() net.Addr { return &net.TCPAddr{} }
