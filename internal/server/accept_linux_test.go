package server

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/servertest"
)

// A connection that the kernel has made is not reset: the port ends once it is accepted. Meanwhile no other is made; then they are refused.
func TestEndAccepting(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := func() error {
		conn, err := net.DialTimeout("tcp", l.Addr().String(), 100*time.Millisecond)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Write([]byte("request")); err != nil {
		t.Fatal(err)
	}
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
	servertest.Await(t, "a dial without an answer", func() bool { return errors.Is(dial(), os.ErrDeadlineExceeded) })
	close(accepted)
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for err == nil { // those made before it began to end
		_, err = l.Accept()
	}
	<-ended
	got := make([]byte, 7)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "request" {
		t.Errorf("%q, %v", got, err)
	}
	servertest.Await(t, "a dial that is refused", func() bool { return errors.Is(dial(), syscall.ECONNREFUSED) })
}
