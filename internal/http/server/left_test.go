package server

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/kit/servertest"
)

// Requests arrive before the server accepts connections, as when the process is suspended. A POST
// whose client has left in the meantime is not served. All other requests are served.
func TestHTTPServerServesNoPostWhoseClientLeft(t *testing.T) {
	port, err := net.Listen("tcp", "127.0.0.1:0")
	servertest.OK(t, err)
	answered, served := make(chan int, 9), make(chan string, 9)
	e := New(Config{Logger: slog.New(slog.DiscardHandler), Served: func(_ string, status int, _ time.Duration) { answered <- status }})
	e.Any("/:name", func(c echo.Context) error {
		served <- c.Request().Method + " " + c.Param("name")
		return c.NoContent(http.StatusNoContent)
	})
	ask := func(method, name string) net.Conn {
		conn, err := net.Dial("tcp", port.Addr().String())
		servertest.OK(t, err)
		if _, err := fmt.Fprintf(conn, "%s /%s HTTP/1.1\r\nHost: codes\r\nContent-Length: 2\r\n\r\n{}", method, name); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	_ = ask(http.MethodPost, "left").Close()
	stays := ask(http.MethodPost, "stays")
	defer stays.Close()
	_ = ask(http.MethodGet, "left").Close()
	s := NewHTTPServer(e, slog.New(slog.DiscardHandler))
	defer s.Close()
	go func() { _ = s.Serve(port) }()
	statuses := map[int]int{}
	for range 3 {
		statuses[<-answered]++
	}
	servertest.Same(t, "answers", fmt.Sprint(statuses), "map[204:2 503:1]")
	servertest.Same(t, "served", map[string]bool{<-served: true, <-served: true}["POST stays"], true)
}
