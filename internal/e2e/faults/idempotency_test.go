package faults

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"sendcode/internal/app/apptest"
)

// A hundred copies of one request at once, over two replicas, one of which is killed under them:
// one send.
func TestOneKeyOverTwoReplicas(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	victim, survivor := s.Spawn(), s.Spawn()
	ask := func(p *apptest.Process) (apptest.Answer, error) {
		body := `{"channel":"email","to":"` + apptest.Ana + `"}`
		return s.At(p.Base, http.MethodPost, "/v1/verifications", body, apptest.WithKey("once-and-no-more-than-that"))
	}
	var all sync.WaitGroup
	first := make(chan struct{}, 100)
	for i := range 100 {
		all.Go(func() {
			a, err := ask([]*apptest.Process{victim, survivor}[i%2])
			first <- struct{}{}
			fine := []int{http.StatusAccepted, http.StatusConflict, http.StatusServiceUnavailable}
			if err == nil && !slices.Contains(fine, a.StatusCode) {
				t.Errorf("%d %s", a.StatusCode, a.Raw)
			}
		})
	}
	<-first
	victim.Kill()
	all.Wait()
	s.Await("the key's send", func() bool {
		a, err := ask(survivor)
		return err == nil && a.StatusCode == http.StatusAccepted
	})
	s.Start(1)
	sends := func() string { return string(s.Get("/v1/admin/sends", apptest.AsAdmin).Raw) }
	s.Await("an outcome", func() bool { return strings.Contains(sends(), `"status":"sent"`) })
	ids := map[string]bool{}
	for _, m := range s.AwaitMail(apptest.Ana, 1) {
		ids[m.ID] = true
	}
	if len(ids) != 1 || strings.Count(sends(), `"verification_id"`) != 1 {
		t.Errorf("Message-IDs %v, sends %s", ids, sends())
	}
}
