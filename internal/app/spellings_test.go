package app

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A browser that asks for sixty spellings of one mailbox, on two replicas and at once, has twenty mails sent to it.
func TestAMailboxIsNotFilledThroughItsSpellings(t *testing.T) {
	s := onRealParts(t).tenants()
	s.start(2)
	ask := func(i int, key string) answer {
		to := fmt.Sprintf("vic.tim+%d@gmail.com", i)
		if i%2 == 0 {
			to = fmt.Sprintf("VICTIM+%d@googlemail.com", i)
		}
		return s.do(i%2, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"locale":"en"}`, to), as(key))
	}
	var admitted atomic.Int32
	var refusals sync.Map
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			switch a := ask(i, publicKey); {
			case a.status == http.StatusAccepted:
				admitted.Add(1)
			case a.status != http.StatusTooManyRequests || a.BlockedBy != "spellings" || a.RetryAfter < 86000 || len(a.Quota.Rules) != 1:
				t.Errorf("%d %s", a.status, a.raw)
			default:
				if err := conforms(s.specification(), http.MethodPost, "/v1/verifications", a); err != nil {
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
	if a := ask(100, apiKey); a.status != http.StatusAccepted || strings.Contains(string(a.raw), "spellings") {
		t.Errorf("a back end: %d %s", a.status, a.raw)
	}
	for _, sink := range []string{s.dumpRedis(), s.postgres.Dump(t), s.printed.String()} {
		if low := strings.ToLower(sink); strings.Contains(low, "victim") || strings.Contains(low, "vic.tim") {
			t.Error("the mailbox is in the clear")
		}
	}
}
