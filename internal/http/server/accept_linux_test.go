package server

import (
	"io"
	"net"
	"testing"
	"time"
)

// A connection that the kernel has made is not reset: the port ends once it is accepted. Then
// others are refused.
func TestEndAccepting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ended, accepted := make(chan struct{}), make(chan struct{})
	go func() {
		EndAccepting(l)
		select {
		case <-accepted:
		default:
			t.Error("ended before the connection was accepted")
		}
		close(ended)
	}()
	if _, err := client.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
	<-time.After(50 * time.Millisecond) // in which it could end too early
	close(accepted)
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	<-ended
	got := make([]byte, 7)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "request" {
		t.Errorf("%q, %v", got, err)
	}
	if late, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the port still listens")
		_ = late.Close()
	}
}
