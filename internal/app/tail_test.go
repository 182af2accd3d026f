package app

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Whoever looks at one replica sees what another one does; and a replica that stops does not wait for who looks.
func TestTheLogIsFollowedOverReplicas(t *testing.T) {
	t.Parallel()
	s := onRealParts(t).start(2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.replicas[0].base+"/v1/admin/tail", nil)
	must(t, err)
	asAdmin(req)
	resp, err := client.Do(req)
	must(t, err)
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
	asked := make(chan answer, 1)
	go func() {
		after(2 * time.Second) // its first look finds where the log ends
		asked <- s.ask(1, ana)
	}()
	until(`"to":"` + anaMasked)
	if a := <-asked; a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.stop(0) }()
	until(`"reason":"stopping"`)
	<-stopped
}
