package apptest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	history "sendcode/internal/historytest"
	"sendcode/internal/policy"
	"sendcode/quota"
)

// Load is what clients did and heard while something went wrong. Its methods may be called at once.
type Load struct {
	*Stack
	Admitted, Refused, Unavailable, Cut atomic.Int64 // Cut: requests that got no answer

	mu   sync.Mutex
	Seen history.History // to be read when no client is under way
}

// NewLoad makes a load on a stack. Where the database stalls, a client that waited as told may be
// refused for 5 s more.
func NewLoad(s *Stack) *Load {
	l := &Load{Stack: s, Seen: history.History{Slack: 5 * time.Second, Rebuilt: 100 * time.Millisecond}}
	for _, r := range quota.OfScope(s.Config().PolicySet(time.Now()).Purposes[policy.DefaultPurpose].Policy.Rules,
		quota.Recipient) {
		l.Seen.Rules = append(l.Seen.Rules, history.Rule{Name: r.Name, Limit: r.Limit, Window: r.Window})
	}
	return l
}

// Call makes a request and notes it with its answer.
func (l *Load) Call(base, method, path, body string, q history.Request, change ...func(*http.Request)) (Answer, error) {
	q.Begin = time.Now()
	a, err := l.At(base, method, path, body, change...)
	if q.End = time.Now(); err == nil {
		q.Status, q.Header, q.Body = a.StatusCode, a.Header, a.Raw
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Seen.Requests = append(l.Seen.Requests, q)
	return a, err
}

// Crash notes that a process died, or may have lost its leases.
func (l *Load) Crash() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Seen.Crashes = append(l.Seen.Crashes, time.Now())
}

// AskAt asks for a code at a base URL. browser says that the caller has a public key, which change
// sets.
func (l *Load) AskAt(base, to string, browser bool, change ...func(*http.Request)) Answer {
	q := history.Request{Kind: history.Send, Recipient: to, Browser: browser}
	a, err := l.Call(base, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+to+`"}`, q, change...)
	switch {
	case err != nil:
		l.Cut.Add(1)
	case a.StatusCode == http.StatusAccepted:
		l.Admitted.Add(1)
	case a.StatusCode == http.StatusTooManyRequests:
		l.Refused.Add(1)
	case a.StatusCode == http.StatusServiceUnavailable:
		l.Unavailable.Add(1)
	default:
		l.Errorf("answered %d %s, and the log has\n%s", a.StatusCode, a.Raw, l.LinesOf(a.Header.Get("X-Request-Id")))
	}
	return a
}

// List notes how every send ended, as administrators are told, and reports whether all have.
func (l *Load) List(base string) (ended bool) {
	l.Helper()
	ended = true
	for cursor := "first"; cursor != ""; {
		query := url.Values{"limit": {"200"}}
		if cursor != "first" {
			query.Set("cursor", cursor)
		}
		a, err := l.Call(base, http.MethodGet, "/v1/admin/sends?"+query.Encode(), "",
			history.Request{Kind: history.Look}, AsAdmin)
		Must(l.T, err)
		l.Is("the list of sends", a, http.StatusOK)
		var page struct {
			Next  string
			Sends []struct{ Status string }
		}
		Must(l.T, json.Unmarshal(a.Raw, &page))
		for _, send := range page.Sends {
			ended = ended && send.Status != "queued" && send.Status != "sending"
		}
		cursor = page.Next
	}
	return ended
}

// Arrived notes the mails that arrived.
func (l *Load) Arrived() []Letter {
	l.Helper()
	mails := l.Mails()
	l.Seen.Messages = nil
	for _, m := range mails {
		l.Seen.Messages = append(l.Seen.Messages,
			history.Message{Recipient: m.To, Code: l.CodeIn(m), ID: m.ID, At: m.At})
	}
	return mails
}
