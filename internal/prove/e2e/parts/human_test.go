package parts

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"sendcode/internal/run/app/apptest"
	"sendcode/internal/verify/humancheck"
	"sendcode/internal/verify/verification/verificationtest"
)

// With askingForWork, each stranger's first send requires a proof of work.
var askingForWork = fmt.Sprintf(`policies: {default: [{name: hour, scope: recipient, limit: 100, window: 1h}]}
apps:
  - name: default
    origins: ["https://shop.example"]
    keys: [{id: web, kind: public, sha256: %x}]
    human_check: {by: work, when: always}
`, sha256.Sum256([]byte(apptest.PublicKey)))

// A stranger's first send requires proof of work. If one solution is posted to all replicas at
// once, it admits one send.
func aSolutionIsOneSend(s *apptest.Stack, f form) {
	ask := func(i int, token string) apptest.Answer {
		body := `{"channel":"email","to":"` + apptest.Ana + `"` + token + `}`
		return s.Do(i%f.replicas, http.MethodPost, "/v1/verifications", body, apptest.As(apptest.PublicKey))
	}
	asked := ask(0, "")
	s.Is("a send without a pass", asked, http.StatusPreconditionRequired, asked.Problem() == "human-check")
	var told struct {
		HumanCheck humancheck.Offer `json:"human_check"`
	}
	apptest.Must(s.T, json.Unmarshal(asked.Raw, &told))
	solution := verificationtest.Solve(s, &told.HumanCheck)
	statuses := map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			a := ask(i, `,"human_check":"`+solution+`"`)
			mu.Lock()
			defer mu.Unlock()
			statuses[a.StatusCode]++
		})
	}
	all.Wait()
	if statuses[http.StatusAccepted] != 1 || statuses[http.StatusUnprocessableEntity] != 11 {
		s.Errorf("answers by status: %v, want one 202 and eleven 422", statuses)
	}
	s.AwaitMail(apptest.Ana, 1)
	if n := len(s.Mails()); n != 1 {
		s.Errorf("%d mails", n)
	}
}
