package server

import (
	"bufio"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"sendcode/internal/kit/servertest"
)

// A head may have 128 header lines and names in its query, and 1024 elements in its lists. A head
// with more gets 431. Lines of a body do not count. The bounds also hold for later requests on a
// connection.
func TestFieldsOfAHeadAreBounded(t *testing.T) {
	e := New(Config{Logger: slog.New(slog.DiscardHandler)})
	e.POST("/", func(c echo.Context) error {
		_, _ = io.Copy(io.Discard, c.Request().Body)
		return c.NoContent(http.StatusNoContent)
	})
	r := newConnsRig(t, NewConnTracker(0, nil, slog.New(slog.DiscardHandler)), e, false)
	head := func(lines int, query string) string {
		return "POST /" + query + " HTTP/1.1\r\nHost: codes\r\nContent-Length: 2000\r\n" + strings.Repeat("a:\r\n", lines-3) + "\r\n"
	}
	body := strings.Repeat("\n", 2000)
	for name, c := range map[string]struct{ text, want string }{
		"128 lines":                  {head(128, "") + body, "204"},
		"129 lines":                  {head(129, ""), "431"},
		"129 lines and a body":       {head(129, "") + body, "431"},
		"many names and a body":      {head(100, "?"+strings.Repeat("a&", 29)) + "\n", "431"},
		"many ranges and a body":     {strings.Replace(head(100, ""), "a:", "Range: bytes=0-0"+strings.Repeat(",1-1", 1100), 1) + "\n", "431"},
		"without an end":             {strings.TrimSuffix(head(129, ""), "\r\n"), "431"},
		"lines without CR":           {strings.ReplaceAll(head(129, ""), "\r", ""), "431"},
		"names in a query":           {head(100, "?"+strings.Repeat("a&", 28)) + body, "204"},
		"too many names in a query":  {head(100, "?"+strings.Repeat("a&", 29)), "431"},
		"ampersands in a header":     {strings.Replace(head(100, ""), "a:", "a:"+strings.Repeat("b&", 200), 1) + body, "204"},
		"elements of lists":          {strings.Replace(head(100, ""), "a:", "Range: bytes=0-0"+strings.Repeat(",1-1", 1000), 1) + body, "204"},
		"too many ranges":            {strings.Replace(head(100, ""), "a:", "Range: bytes=0-0"+strings.Repeat(",1-1", 1100), 1), "431"},
		"too many trailer names":     {strings.Replace(head(100, ""), "a:", "Trailer: a"+strings.Repeat(",b", 1100), 1), "431"},
		"too many cookies":           {strings.ReplaceAll(head(100, ""), "a:", "Cookie: a="+strings.Repeat(";b=", 11)), "431"},
		"two requests":               {head(100, "") + body + head(100, "") + body, "204 204"},
		"a second head":              {head(100, "") + body + head(800, ""), "204 431"},
		"blank lines before a head":  {head(100, "") + body + "\r\n\r\n" + head(100, "") + body, "204 204"},
		"blank lines and many lines": {head(100, "") + body + "\r\n\r\n" + head(800, ""), "204 431"},
	} {
		conn := r.dial("127.0.0.1", c.text)
		answers, got := bufio.NewReader(conn), ""
		for range strings.Fields(c.want) {
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatalf("%s: after %q: %v", name, got, err)
			}
			got += " " + answer.Status[:3]
		}
		servertest.Same(t, name, got[1:], c.want)
	}
}

// If no handler reads a body, the answer waits for the rest of the body for a second. If the rest
// does not come, the connection closes. A client whose body has arrived keeps its connection.
func TestUnreadBodyIsNotAwaited(t *testing.T) {
	r := newConnsRig(t, NewConnTracker(0, nil, slog.New(slog.DiscardHandler)), New(Config{Logger: slog.New(slog.DiscardHandler)}), false)
	for _, accept := range []string{"application/json", "text/html"} { // the page is longer than the buffer of net/http
		for body, closes := range map[string]bool{"{}": false, "{": true} {
			conn := r.dial("127.0.0.1", "POST /none HTTP/1.1\r\nHost: codes\r\nAccept: "+accept+"\r\nContent-Length: 2\r\n\r\n"+body)
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			servertest.OK(t, err)
			servertest.Same(t, accept+body, answer.StatusCode, 404)
			servertest.Same(t, accept+body+", closes", answer.Close, closes)
		}
	}
}
