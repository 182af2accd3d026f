package app_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"testing"
	"time"

	"sendcode/internal/run/app/apptest"
	"sendcode/internal/store"
)

// A provider's signature is written to the file before the request is answered, so that it can't be
// used again, even if the process is killed.
func TestEventsKeepUsedSignatures(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
	s.Env["EVENTS"] = "the provider's secret of events"
	s.Write(`provider_events: [{name: mail, scheme: mailgun, secret_env: EVENTS, type: [event-data.event], message: event-data.id, outcomes: {delivered: delivered}}]
`).Start(1)
	at := fmt.Sprint(time.Now().Unix())
	mac := hmac.New(sha256.New, []byte(s.Env["EVENTS"]))
	mac.Write([]byte(at + "token"))
	s.Is("an event", s.Post("/v1/events/mail", fmt.Sprintf(
		`{"signature":{"timestamp":%q,"token":"token","signature":"%x"},"event-data":{"event":"delivered","id":"none"}}`, at,
		mac.Sum(nil))),
		http.StatusOK)
	kept := 0
	apptest.Must(t, s.Replicas[0].DB().LimiterEvents(s.Context(), 0, -1, 10, func(store.LimiterEvent) error { kept++; return nil }))
	if kept != 1 {
		t.Errorf("%d events in the file, want the signature's", kept)
	}
}
