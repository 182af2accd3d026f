package app

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
)

// A request that comes while the service starts waits until the routes exist. If the start takes
// longer than quietStart, /readyz answers 503 on every port, even if the checks are known and pass,
// because a load balancer sends requests after the first 200. CORS lets a page read the 503.
func TestReadyOnlyWithItsRoutes(t *testing.T) {
	cfg := loadConfig(t, "", "SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_ADMIN_ADDR=127.0.0.1:0",
		"SENDCODE_ADMIN_PASSWORD=a long password of a test", "SENDCODE_DATA_DIR="+t.TempDir(),
		"SENDCODE_PUBLIC_KEY=pk_"+strings.Repeat("a", 32), "SENDCODE_ORIGINS=https://shop.example")
	defer func(wait time.Duration) { quietStart = wait }(quietStart)
	quietStart = 0
	ports := newApp(cfg, slog.New(slog.DiscardHandler), nil)
	servertest.OK(t, ports.openPorts())
	ports.health.MarkStarted()
	for _, l := range ports.listeners {
		servertest.Same(t, "/readyz without routes", answer(t, l, "/readyz"), "503 starting")
		servertest.Same(t, "/livez without routes", answer(t, l, "/livez"), "200 ok")
	}
	early, err := http.NewRequest(http.MethodPost, "http://"+ports.listeners[0].Addr().String()+"/v1/verifications", nil)
	servertest.OK(t, err)
	early.Header.Set("Origin", "https://shop.example")
	refused, err := http.DefaultClient.Do(early)
	servertest.OK(t, err)
	_ = refused.Body.Close()
	servertest.Same(t, "what a page reads without routes", refused.Status[:4]+refused.Header.Get("Access-Control-Allow-Origin"),
		"503 https://shop.example")
	servertest.Same(t, "closed", ports.close(), nil)

	quietStart = time.Hour
	a, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler))
	servertest.OK(t, err)
	conn, err := net.Dial("tcp", a.Addr())
	servertest.OK(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	servertest.OK(t, err)
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx) }()
	got, err := bufio.NewReader(conn).ReadString('\n')
	servertest.OK(t, err)
	servertest.Same(t, "a request before Serve", strings.TrimSpace(got), "HTTP/1.1 200 OK")
	for i, route := range []string{"/openapi.yaml", "/metrics"} {
		ready := answer(t, a.listeners[i], "/readyz")
		ready = strings.Replace(ready, "degraded: database_slow: The database answers slowly.", "ok", 1) // on a busy machine any database is slow
		servertest.Same(t, "/readyz with routes", ready, "200 ok")
		for _, path := range []string{route, "/favicon.ico"} { // browsers ask each port for the icon
			if got := answer(t, a.listeners[i], path); got[:4] != "200 " {
				t.Errorf("%s: %s", path, got)
			}
		}
	}
	stop(ErrInterrupted)
	servertest.Same(t, "end", <-ended, nil)
}

// /readyz names the failed part only on the console's own port, for an admin token, and to programs
// on this machine, unless strangers come through a proxy. A proxy on this machine that adds no
// header, such as a forwarder of TCP, passes on requests that look like this machine's, with a Host
// that the stranger chose. A stranger gets only one word.
func TestStrangersReadOneWordOfReadiness(t *testing.T) {
	const token = "admin-token-of-a-test-0123456789"
	for setting, behindProxy := range map[string]bool{
		"": false, "SENDCODE_PUBLIC_URL=http://localhost:8080": false,
		"SENDCODE_PUBLIC_URL=https://codes.example": true, "SENDCODE_TRUSTED_PROXIES=127.0.0.1": true,
	} {
		environ := []string{
			"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_ADMIN_ADDR=127.0.0.1:0", "SENDCODE_ADMIN_TOKEN=" + token, "SENDCODE_DATA_DIR=" + t.TempDir(),
		}
		if setting != "" {
			environ = append(environ, setting)
		}
		a, err := New(t.Context(), loadConfig(t, "", environ...), slog.New(slog.DiscardHandler))
		servertest.OK(t, err)
		a.health.MarkStarted(func(context.Context) *server.HealthReason { return &server.HealthReason{Word: "redis_away"} })
		for _, c := range []struct {
			who      string
			listener int
			host, by string
			token    string
			wantPart bool
		}{
			{"a stranger", 0, "codes.example", "203.0.113.7:9", "", false},
			{"one who says localhost", 0, "localhost", "203.0.113.7:9", "", false},
			{"a proxy on this machine", 0, "codes.example", "127.0.0.1:9", "", false},
			{"a wrong token", 0, "codes.example", "203.0.113.7:9", "another", false},
			{"an admin token", 0, "codes.example", "203.0.113.7:9", token, true},
			{"this machine, or a stranger through a proxy here without headers", 0, "localhost", "127.0.0.1:9", "", !behindProxy},
			{"this machine with an admin token", 0, "localhost", "127.0.0.1:9", token, true},
			{"the console's port", 1, "console.example", "203.0.113.7:9", "", true},
		} {
			r, w := httptest.NewRequest(http.MethodGet, "/readyz", nil), httptest.NewRecorder()
			r.Host, r.RemoteAddr = c.host, c.by
			r.Header.Set("Authorization", "Bearer "+c.token)
			a.listeners[c.listener].routes.ServeHTTP(w, r)
			if body := w.Body.String(); strings.Contains(body, "redis_away") != c.wantPart || !c.wantPart && body != "degraded" {
				t.Errorf("%q: %s reads %q", setting, c.who, body)
			}
		}
		servertest.OK(t, a.close())
	}
}

// answer returns status and body of a GET.
func answer(t *testing.T, l *listener, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + l.Addr().String() + path)
	servertest.OK(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	servertest.OK(t, err)
	return resp.Status[:4] + string(body)
}
