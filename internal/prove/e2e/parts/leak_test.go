//go:build nightly

// Only `make nightly` runs this test: it must run alone.

package parts

import (
	"testing"

	"go.uber.org/goleak"

	"sendcode/internal/run/app/apptest"
)

// A service that has stopped leaves no goroutine behind: none of its workers, watches, connections
// or waiting requests. The test is not parallel, so that no goroutines of other tests appear
// meanwhile.
func TestNoGoroutineOutlivesTheService(t *testing.T) {
	for name, open := range apptest.Stacks {
		t.Run(name, func(t *testing.T) {
			apptest.Client.CloseIdleConnections()
			s := open(t)
			hook := apptest.NewReceiver(t)
			s.WithWebhook(hook, "")
			before := goleak.IgnoreCurrent()
			s.Start(1)
			a := s.Ask(0, apptest.Ana, apptest.Patiently)
			code := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0])
			s.Approves(0, a.ID, code)
			s.Ask(0, apptest.Ana)
			s.Post("/v1/quota", `{"channel":"email","to":"`+apptest.Ana+`"}`)
			s.Get("/v1/admin/sends", apptest.AsAdmin)
			s.AwaitEvents(hook, 2)
			for _, path := range []string{"/", "/readyz", "/metrics"} {
				s.Get(path)
			}
			s.Stop(0)
			apptest.Client.CloseIdleConnections()
			hook.CloseClientConnections()
			goleak.VerifyNone(t, before)
		})
	}
}
