package clients

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sendcode/internal/app/apptest"
)

// A browser that asks for sixty spellings of one mailbox, on two replicas and at once, has twenty mails sent to it.
func TestAMailboxIsNotFilledThroughItsSpellings(t *testing.T) {
	s := apptest.OnRealParts(t).Tenants()
	s.Start(2)
	ask := func(i int, key string) apptest.Answer {
		to := fmt.Sprintf("vic.tim+%d@gmail.com", i)
		if i%2 == 0 {
			to = fmt.Sprintf("VICTIM+%d@googlemail.com", i)
		}
		return s.Do(i%2, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"locale":"en"}`, to), apptest.As(key))
	}
	var admitted atomic.Int32
	var refusals sync.Map
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			switch a := ask(i, apptest.PublicKey); {
			case a.StatusCode == http.StatusAccepted:
				admitted.Add(1)
			case a.StatusCode != http.StatusTooManyRequests || a.BlockedBy != "spellings" || a.RetryAfter < 86000 || len(a.Quota.Rules) != 1:
				t.Errorf("%d %s", a.StatusCode, a.Raw)
			default:
				if err := apptest.Conforms(s.Specification(), http.MethodPost, "/v1/verifications", a); err != nil {
					t.Error(err)
				}
				refusals.Store(i, a)
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 20 {
		t.Errorf("%d were let in", admitted.Load())
	}
	if a := ask(100, apptest.APIKey); a.StatusCode != http.StatusAccepted || strings.Contains(string(a.Raw), "spellings") {
		t.Errorf("a back end: %d %s", a.StatusCode, a.Raw)
	}
	for _, sink := range []string{dumpRedis(s), s.Postgres.Dump(t), s.Printed.String()} {
		if low := strings.ToLower(sink); strings.Contains(low, "victim") || strings.Contains(low, "vic.tim") {
			t.Error("the mailbox is in the clear")
		}
	}
}
