package app

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"
)

// A service that has stopped leaves no goroutine behind: not of its workers, watches, connections, or of requests that waited. It is
// not parallel, so that no other test's goroutines come meanwhile.
func TestNoGoroutineOutlivesTheService(t *testing.T) {
	for name, open := range stacks {
		t.Run(name, func(t *testing.T) {
			client.CloseIdleConnections()
			s := open(t)
			hook := newReceiver(t)
			s.hooked(hook, "")
			before := goleak.IgnoreCurrent()
			s.start(1)
			a := s.wait(0, ana)
			code := s.codeIn(s.awaitMail(ana, 1)[0])
			if c := s.check(0, a.ID, code); !c.Valid {
				t.Fatalf("%s", c.raw)
			}
			s.ask(0, ana)
			s.do(0, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+ana+`"}`)
			s.do(0, http.MethodGet, "/v1/admin/sends", "", bearer(token))
			s.awaitTold(hook, 2)
			for _, path := range []string{"/", "/readyz", "/metrics"} {
				s.do(0, http.MethodGet, path, "")
			}
			s.stop(0)
			client.CloseIdleConnections()
			hook.CloseClientConnections()
			goleak.VerifyNone(t, before)
		})
	}
}
