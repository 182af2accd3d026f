package faults

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/app/apptest"
	"sendcode/internal/outbox"
	"sendcode/internal/store"
	"sendcode/internal/store/postgres"
	"sendcode/quota"
)

// kills is how often TestKilledUnderLoad kills; `make soak` does it a hundred times.
var kills = flag.Int("faults.kills", 10, "how often a replica is killed under load")

// fleet is replicas that are processes of their own, so that they can be killed, stopped and frozen.
type fleet struct {
	*apptest.Stack
	binary string
	log    *postgres.DB

	mu   sync.Mutex
	at   []*apptest.Process
	told map[uuid.UUID]bool // every 202
	cut  int                // requests that got no answer
	odd  []string
}

func newFleet(s *apptest.Stack, n int) *fleet {
	s.Helper()
	f := &fleet{Stack: s, binary: apptest.Build(s.T), told: map[uuid.UUID]bool{}}
	for range n {
		f.at = append(f.at, s.Spawn(f.binary))
	}
	log, err := postgres.Open(s.Context(), s.Env["SENDCODE_DATABASE_URL"], "")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = log.Close() })
	f.log = log
	return f
}

func (f *fleet) process(i int) *apptest.Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at[i%len(f.at)]
}

// clients ask until the context ends: some for recipients whose rules are always at their end, some for new ones.
func (f *fleet) clients(ctx context.Context, n int) (ended *sync.WaitGroup) {
	ended = new(sync.WaitGroup)
	transport := &http.Transport{MaxIdleConnsPerHost: n}
	f.Cleanup(transport.CloseIdleConnections)
	asker := &http.Client{Timeout: 30 * time.Second, Transport: transport}
	for i := range n {
		ended.Go(func() {
			for k := i; ctx.Err() == nil; k++ {
				to := fmt.Sprintf("crowd%d@example.com", i%4)
				if k%2 == 0 {
					to = fmt.Sprintf("once%d.%d@example.com", i, k)
				}
				f.note(f.askOne(asker, f.process(k).Base, to))
				apptest.Sleep(5 * time.Millisecond)
			}
		})
	}
	return ended
}

// askOne gives the send's ID after a 202, and an error where no answer came.
func (f *fleet) askOne(asker *http.Client, base, to string) (id, odd string, err error) {
	req, err := http.NewRequest(http.MethodPost, base+"/v1/verifications", strings.NewReader(`{"channel":"email","to":"`+to+`","locale":"en"}`))
	if err != nil {
		return "", "", err
	}
	req.Header.Set("Authorization", "Bearer "+f.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := asker.Do(req)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", "", err
	}
	switch resp.StatusCode {
	case http.StatusAccepted:
		var body apptest.VerificationBody
		err := json.Unmarshal(raw, &body)
		return body.Send.ID, "", err
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return "", "", nil
	}
	return "", resp.Status, nil
}

func (f *fleet) note(id, odd string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil:
		f.cut++
	case odd != "":
		f.odd = append(f.odd, odd)
	case id != "":
		f.told[uuid.MustParse(id)] = true
	}
}

// verdict compares what was answered, what the log says and what arrived. It gives how many mails came twice.
func (f *fleet) verdict(h apptest.History) (doubled int) {
	f.Helper()
	rules := quota.OfScope(f.Config().Policies["default"].Rules, quota.Recipient) // others count other things than sends
	for _, breach := range overPolicy(h, rules, 0) {
		f.Error(breach)
	}
	for _, odd := range f.odd {
		f.Errorf("answered %s", odd)
	}
	rows := map[uuid.UUID]store.Send{}
	for _, row := range h {
		rows[row.ID] = row
	}
	for id := range f.told {
		if _, ok := rows[id]; !ok {
			f.Errorf("send %s was accepted and is not in the log", id)
		}
	}
	mails := map[string][]apptest.Letter{}
	for _, m := range f.Mails() {
		mails[m.ID] = append(mails[m.ID], m)
	}
	for _, row := range h {
		got := mails[row.ID.String()+"@localhost"]
		delete(mails, row.ID.String()+"@localhost")
		if row.Status != store.Sent || !row.Counts || len(got) == 0 {
			f.Errorf("send %s is %s %s with %d mails", row.ID, row.Status, row.Reason, len(got))
		}
		for _, again := range got[min(1, len(got)):] {
			doubled++
			if f.CodeIn(again) != f.CodeIn(got[0]) || again.To != got[0].To {
				f.Errorf("send %s came twice with two codes", row.ID)
			}
		}
	}
	if len(mails) > 0 {
		f.Errorf("%d mails belong to no send", len(mails))
	}
	return doubled
}

// A random one of two replicas is killed again and again under load. Nothing that was accepted is without an outcome,
// nothing is over the policy, and the few mails that came twice carry the same Message-ID and code.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	f := newFleet(apptest.OnRealParts(t).Policy(tight), 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	clients := f.clients(ctx, 8)
	for range *kills {
		apptest.Sleep(time.Duration(100+rand.IntN(400)) * time.Millisecond)
		i := rand.IntN(2)
		f.process(i).Kill()
		reborn := f.Spawn(f.binary)
		f.mu.Lock()
		f.at[i] = reborn
		f.mu.Unlock()
	}
	apptest.Sleep(time.Second)
	f.Await("enough to show something", func() bool { // which takes a busy machine longer
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.told) >= 10**kills
	})
	stop()
	clients.Wait()
	h := ended(f.Stack, f.log)
	doubled := f.verdict(h)
	t.Logf("%d kills, %d sends accepted, %d in the log, %d requests without an answer, %d mails twice", *kills, len(f.told), len(h), f.cut, doubled)
	if f.cut == 0 {
		t.Error("no kill cut anything")
	}
	if doubled > outbox.DefaultWorkers**kills { // those whose outcome was not in the log yet
		t.Errorf("%d mails came twice", doubled)
	}
}
