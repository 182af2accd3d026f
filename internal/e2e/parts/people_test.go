package parts

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"sendcode/internal/app/apptest"
	history "sendcode/internal/historytest"
)

// call makes a request at some replica and notes it with its answer.
func (p *proof) call(random *rand.Rand, method, path, body string, q history.Request,
	change ...func(*http.Request)) apptest.Answer {
	p.mu.Lock()
	base := p.replicas[random.IntN(len(p.replicas))].Base
	p.mu.Unlock()
	q.Begin = time.Now()
	a, err := p.At(base, method, path, body, change...)
	q.End = time.Now()
	if err != nil {
		a = apptest.Answer{}
	}
	q.Status, q.Header, q.Body = a.StatusCode, a.Header, a.Raw
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.Requests = append(p.seen.Requests, q)
	switch {
	case a.StatusCode == 0:
		p.cut++
	case a.StatusCode == http.StatusServiceUnavailable:
		p.unavailable++
	}
	return a
}

// ask asks for a code, as a browser or with a secret key, and with an Idempotency-Key.
func (p *proof) ask(random *rand.Rand, to string, browser bool, change ...func(*http.Request)) (a apptest.Answer) {
	key := fmt.Sprintf("the-key-of-a-request-%016x", random.Uint64())
	q := history.Request{Kind: history.Send, Recipient: to, Browser: browser, Key: key}
	once := func(random *rand.Rand) apptest.Answer {
		a := p.call(random, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+to+`"}`, q,
			append(change, apptest.WithKey(key))...)
		switch a.StatusCode {
		case 0, http.StatusAccepted, http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		default:
			p.Errorf("answered %d %s, and the log has\n%s", a.StatusCode, a.Raw, p.LinesOf(a.Header.Get("X-Request-Id")))
		}
		return a
	}
	if random.IntN(8) == 0 { // the same one at once, perhaps at another replica
		var other sync.WaitGroup
		elsewhere := rand.New(rand.NewPCG(random.Uint64(), 0))
		other.Go(func() { once(elsewhere) })
		defer other.Wait()
	}
	if a = once(random); a.StatusCode == 0 {
		a = once(random)
	}
	return a
}

// person asks for a code as a back end does: mostly for one of a thousand recipients, else for one
// of eight whose rules are at their end, and whom the stranger attacks. It looks at what is left,
// enters wrong codes and the right one, in any order and number, and asks again once it has waited
// as told.
func (p *proof) person(ctx context.Context, random *rand.Rand) {
	to := fmt.Sprintf("r%d@example.com", random.IntN(1000))
	switch random.IntN(16) {
	case 0:
		to = bouncing
	case 1, 2, 3, 4:
		to = fmt.Sprintf("crowd%d@example.com", random.IntN(8))
	}
	if random.IntN(8) == 0 {
		p.call(random, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+to+`"}`,
			history.Request{Kind: history.Look, Recipient: to})
	}
	a := p.ask(random, to, false)
	if a.StatusCode == http.StatusAccepted && random.IntN(2) == 0 {
		code := p.codeOf(ctx, a.Send.ID)
		for range random.IntN(8) {
			entered := code
			switch {
			case code == "":
				entered = "BCDFGHJK"
			case random.IntN(3) > 0:
				entered = p.Wrong(code)
			}
			p.call(random, http.MethodPost, "/v1/verifications/"+a.ID+"/check", fmt.Sprintf(`{"code":%q}`, entered),
				history.Request{Kind: history.Check, Recipient: to, Verification: a.ID, Code: entered})
		}
	}
	if wait := time.Duration(a.RetryAfterMS) * time.Millisecond; wait > 0 && wait < time.Second {
		sleep(ctx, wait)
	} else {
		sleep(ctx, time.Duration(random.IntN(200))*time.Millisecond)
	}
}

// stranger asks in browsers of many networks for codes of other people, as often as it is let.
func (p *proof) stranger(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		from := fmt.Sprintf("198.%d.%d.%d", 18+random.IntN(2), random.IntN(256), random.IntN(256))
		a := p.ask(random, fmt.Sprintf("crowd%d@example.com", random.IntN(16)), true,
			apptest.As(apptest.PublicKey), func(r *http.Request) { r.Header.Set("X-Forwarded-For", from) })
		if a.StatusCode == http.StatusAccepted {
			p.mu.Lock()
			p.byBrowser[a.Send.ID] = true
			p.mu.Unlock()
		}
		sleep(ctx, 50*time.Millisecond)
	}
}

// codeOf returns the code of a send's mail, or "" if none came in time.
func (p *proof) codeOf(ctx context.Context, send string) string {
	for range 40 {
		for _, m := range slices.Backward(p.SMTP.Messages()) {
			if strings.HasPrefix(m.ID, send) {
				return p.CodeIn(apptest.Letter{Text: string(m.Data)})
			}
		}
		sleep(ctx, 25*time.Millisecond)
	}
	return ""
}

// list notes how every send ended, as administrators are told, and reports whether all have.
func (p *proof) list() (ended bool) {
	p.Helper()
	ended = true
	for cursor := "first"; cursor != ""; {
		query := url.Values{"limit": {"200"}}
		if cursor != "first" {
			query.Set("cursor", cursor)
		}
		a := p.call(p.random, http.MethodGet, "/v1/admin/sends?"+query.Encode(), "", history.Request{Kind: history.Look},
			apptest.AsAdmin)
		p.Is("the list of sends", a, http.StatusOK)
		var page struct {
			Next  string
			Sends []struct{ Status string }
		}
		apptest.Must(p.T, json.Unmarshal(a.Raw, &page))
		for _, send := range page.Sends {
			ended = ended && send.Status != "queued" && send.Status != "sending"
		}
		cursor = page.Next
	}
	return ended
}

// arrived notes the mails that arrived, and returns their codes.
func (p *proof) arrived() map[string]bool {
	p.Helper()
	codes := map[string]bool{}
	for _, m := range p.Mails() {
		code := p.CodeIn(m)
		codes[code] = true
		p.seen.Messages = append(p.seen.Messages, history.Message{Recipient: m.To, Code: code, ID: m.ID, At: m.At})
	}
	return codes
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
