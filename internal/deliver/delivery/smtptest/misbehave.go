package smtptest

import (
	"cmp"
	"crypto/tls"
	"net"
	"time"
)

// act follows the rule for a stage, or gives the usual answer.
func (d *dialogue) act(stage Stage, usual string) bool {
	return d.follow(d.server.rule(stage, ""), usual)
}

// follow does what a rule says; false ends the connection.
func (d *dialogue) follow(r Rule, usual string) bool {
	if r.Until != nil && !wait(d, r.Until) || r.Delay > 0 && !wait(d, time.After(r.Delay)) {
		return false
	}
	answer := r.Reply
	if answer == "" && r.Raw == "" && !r.Stall && !r.ends() {
		answer = usual
	}
	if answer != "" {
		answer += "\r\n"
	}
	if !d.write(answer+r.Raw, r) {
		return false
	}
	if r.Stall {
		<-d.stopped
	}
	d.end(r)
	return !r.Stall && !r.ends()
}

func (r Rule) ends() bool { return r.Close || r.Abort }

// end closes the connection in the rule's way, without TLS's own end of the stream.
func (d *dialogue) end(r Rule) {
	raw := d.conn
	if secure, ok := raw.(*tls.Conn); ok {
		raw = secure.NetConn()
	}
	if tcp, ok := raw.(*net.TCPConn); ok && r.Abort {
		_ = tcp.SetLinger(0)
	}
	if r.ends() {
		_ = raw.Close()
	}
}

func (d *dialogue) write(text string, r Rule) bool {
	if text == "" {
		return true
	}
	if !r.Slow {
		_, err := d.conn.Write([]byte(text))
		return err == nil
	}
	pause := cmp.Or(r.Pause, slowPause)
	for n := range len(text) {
		if _, err := d.conn.Write([]byte{text[n]}); err != nil || !wait(d, time.After(pause)) {
			return false
		}
	}
	return true
}

// wait waits for the channel; false: the server has stopped.
func wait[T any](d *dialogue, c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-d.stopped:
		return false
	}
}
