package clients

import (
	"net/http"
	"testing"

	"sendcode/internal/app/apptest"
)

// An operator stops mail in the file, and lets it go on, without a restart; the record has all that was asked for meanwhile.
func TestPausedByTheFile(t *testing.T) {
	t.Parallel()
	const rules = "policies:\n  default:\n" + apptest.Roomy
	s := apptest.Embedded(t).Policy(apptest.Roomy).Watching().Start(1)
	s.Write(rules + "paused: [{channel: email, reason: the server moves}]\n")
	s.Hangup(0, "applied")
	for range 2 {
		if a := s.Wait(0, apptest.Ana); a.StatusCode != http.StatusBadGateway || a.Send.Reason != "paused" || !a.Quota.Allowed {
			t.Fatalf("%d %s", a.StatusCode, a.Raw)
		}
	}
	s.Write(rules)
	s.Hangup(0, "applied")
	if a := s.Wait(0, apptest.Ana); a.StatusCode != http.StatusAccepted || a.Send.Status != "sent" {
		t.Errorf("%d %s", a.StatusCode, a.Raw)
	}
	if n := len(s.Mails()); n != 1 {
		t.Errorf("%d mails", n)
	}
	states := map[string]int{}
	for _, row := range s.History() {
		states[string(row.Status)+" "+row.Reason]++
	}
	if states["failed paused"] != 2 || states["sent "] != 1 {
		t.Errorf("%v", states)
	}
}
