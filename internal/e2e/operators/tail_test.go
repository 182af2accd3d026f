package operators

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
)

// A reader at one replica sees what another one does; and a replica that stops does not wait for who looks.
func TestTheLogIsFollowedOverReplicas(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Start(2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Replicas[0].Base+"/v1/admin/tail", nil)
	apptest.Must(t, err)
	apptest.AsAdmin(req)
	resp, err := apptest.Client.Do(req)
	apptest.Must(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	until := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("the stream ended without %q: %v", text, lines.Err())
	}
	until("retry:")
	asked := make(chan apptest.Answer, 1)
	go func() {
		apptest.After(2 * time.Second) // its first look finds where the log ends
		asked <- s.Ask(1, apptest.Ana)
	}()
	until(`"to":"` + apptest.AnaMasked)
	if a := <-asked; a.StatusCode != http.StatusAccepted {
		t.Fatalf("%d %s", a.StatusCode, a.Raw)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.Stop(0) }()
	until(`"reason":"stopping"`)
	<-stopped
}
