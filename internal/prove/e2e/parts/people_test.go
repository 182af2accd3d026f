package parts

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sendcode/internal/deliver/standardwebhooks"
	history "sendcode/internal/kit/historytest"
	"sendcode/internal/run/app/apptest"
)

// call sends a request to the replica whose turn it is, and records the request with its answer.
func (p *provingRun) call(method, path, body string, q history.Request, change ...func(*http.Request)) apptest.Answer {
	q, a := p.reach(method, path, body, q, change...)
	p.note(q)
	return a
}

// reach sends a request to the replica whose turn it is, and returns the recorded request with its
// answer.
func (p *provingRun) reach(method, path, body string, q history.Request,
	change ...func(*http.Request),
) (history.Request, apptest.Answer) {
	p.mu.Lock()
	p.turn++
	base := p.replicas[p.turn%len(p.replicas)].Base
	p.mu.Unlock()
	q.Begin = time.Now()
	a, err := p.At(base, method, path, body, change...)
	q.End = time.Now()
	if err != nil {
		a = apptest.Answer{}
		apptest.Sleep(100 * time.Millisecond) // a client waits, too, if its connection is refused
	}
	q.Status, q.Header, q.Body = a.StatusCode, a.Header, a.Raw
	return q, a
}

func (p *provingRun) note(q history.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observed.Requests = append(p.observed.Requests, q)
	switch q.Status {
	case 0:
		p.cut++
	case http.StatusServiceUnavailable:
		p.unavailable++
	}
	var sent struct{ Send struct{ ID string } }
	if q.Stranger && q.Status == http.StatusAccepted && json.Unmarshal(q.Body, &sent) == nil {
		p.byStrangers[sent.Send.ID] = true
	}
}

// known is the member of a request by which a back end says that it knows the person.
const known = `,"trust":"known"`

// asKnown returns known. While a replica of the older version may serve, which answers "known" with
// a 422, asKnown returns a client_ip instead: without either, the newer version would count all
// persons as one network.
func (p *provingRun) asKnown(random *rand.Rand) string {
	if p.mixed.Load() {
		return fmt.Sprintf(`,"client_ip":%q`, randomClientIP(random))
	}
	return known
}

// asStranger returns a request for a person whom the back end doesn't know. The older version
// treats every request of a secret key as one for a known person, and may give it the places in
// reserve.
func (p *provingRun) asStranger() history.Request { return history.Request{Stranger: !p.mixed.Load()} }

// ask requests a code with an Idempotency-Key, and sometimes repeats the request. q says who the
// caller is. more has further members of the body, each after a comma.
func (p *provingRun) ask(random *rand.Rand, to, more string, q history.Request, change ...func(*http.Request)) (a apptest.Answer) {
	q.Kind, q.Recipient, q.Key = history.Send, to, fmt.Sprintf("the-key-of-a-request-%016x", random.Uint64())
	once := func() apptest.Answer {
		a := p.call(http.MethodPost, "/v1/verifications", `{`+p.recipientMembers(to)+more+`}`, q,
			append(change, apptest.WithKey(q.Key))...)
		switch a.StatusCode {
		case 0, http.StatusAccepted, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusTooManyRequests,
			http.StatusBadGateway,
			http.StatusServiceUnavailable:
		default:
			p.Errorf("answered %d %s, and the log has\n%s", a.StatusCode, a.Raw, p.LinesOf(a.Header.Get("X-Request-Id")))
		}
		return a
	}
	if random.IntN(8) == 0 { // repeats the request at once, perhaps at another replica
		var other sync.WaitGroup
		other.Go(func() { once() })
		defer other.Wait()
	}
	if a = once(); a.StatusCode == 0 {
		a = once()
	}
	return a
}

// person requests codes as a back end does that knows the person. Most codes are for one of a
// thousand recipients. The others are for one of eight recipients whose limits are used up, and
// whom strangers attack, or for the first of bouncing. The back end reads the quota, enters wrong
// codes and the right one, in any order and number, and waits as the answer says (pause). It makes
// one code in six itself. Now and then the recipient reports the mail, or an administrator resets
// or erases the recipient.
func (p *provingRun) person(ctx context.Context, random *rand.Rand, _ string) {
	to := fmt.Sprintf("r%d@example.com", random.IntN(1000))
	switch random.IntN(16) {
	case 0:
		to = bouncing[0]
	case 1, 2, 3, 4:
		to = fmt.Sprintf("crowd%d@example.com", random.IntN(8))
	}
	if random.IntN(8) == 0 {
		p.look(to, p.asKnown(random), history.Request{})
	}
	own := ""
	if random.IntN(6) == 0 {
		own = fmt.Sprintf(`,"code":%q,"ttl":60`, ownCode(random))
	}
	a := p.ask(random, to, p.asKnown(random)+own, history.Request{})
	if a.StatusCode == http.StatusAccepted && own == "" && random.IntN(2) == 0 {
		code := p.codeOf(ctx, a.Send.ID)
		if random.IntN(8) == 0 {
			p.reportNotMe(to, a)
		}
		for range random.IntN(8) {
			entered := code
			switch {
			case code == "":
				entered = "BCDFGHJK"
			case random.IntN(3) > 0:
				entered = p.Wrong(code)
			}
			p.call(http.MethodPost, "/v1/verifications/"+a.ID+"/check", fmt.Sprintf(`{"code":%q}`, entered),
				history.Request{Kind: history.Check, Recipient: to, Verification: a.ID, Code: entered})
		}
	}
	switch random.IntN(40) {
	case 0, 1:
		p.administer("quota/reset", history.Request{Kind: history.Reset, Recipient: to, MayEnd: true})
	case 2:
		if p.carriers == nil { // the receipt of an erased send isn't stored
			p.administer("erase", history.Request{Kind: history.Look, Recipient: to, MayEnd: true})
		}
	}
	pause(ctx, random, time.Duration(a.RetryAfterMS)*time.Millisecond)
}

// reportNotMe presses the button behind the link of a send's mail, if the mail has arrived.
func (p *provingRun) reportNotMe(to string, a apptest.Answer) {
	q := history.Request{Kind: history.Look, Recipient: to, Verification: a.ID, MayEnd: true}
	for _, m := range p.Mails() {
		link := notMePath.FindString(strings.ReplaceAll(m.Text, "=\r\n", ""))
		if !strings.HasPrefix(m.ID, a.Send.ID) || link == "" {
			continue
		}
		q, _ = p.reach(http.MethodPost, link, "", q,
			func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") })
		if q.Status == http.StatusOK || q.Status == http.StatusNotFound { // a page, which the judge does not read; 404: erased meanwhile
			q.Status, q.Body = http.StatusNoContent, nil
			p.reported.Add(1)
		}
		p.note(q)
		return
	}
}

var notMePath = regexp.MustCompile(`/not-me/[\w-]{43}`)

// recipientMembers returns the JSON members of a request that name a recipient.
func (p *provingRun) recipientMembers(to string) string {
	if p.carriers != nil {
		return `"channel":"sms","to":"` + p.carriers.number(to) + `"`
	}
	return `"channel":"email","to":"` + to + `"`
}

// look reads the quota of a recipient. q describes the caller. more has further members of the
// body, each after a comma.
func (p *provingRun) look(to, more string, q history.Request) {
	q.Kind, q.Recipient = history.Look, to
	p.call(http.MethodPost, "/v1/quota", `{`+p.recipientMembers(to)+more+`}`, q)
}

func (p *provingRun) administer(what string, q history.Request) {
	p.call(http.MethodPost, "/v1/admin/"+what, `{`+p.recipientMembers(q.Recipient)+`,"reason":"ticket 7"}`, q, apptest.AsAdmin)
}

// requestForBouncing requests codes for a mailbox that accepts no mail. It reads the quota
// meanwhile and afterwards. Once an answer shows the failure, each replica has given the place
// back.
func (p *provingRun) requestForBouncing(ctx context.Context, random *rand.Rand, name string) {
	to := name + "@example.com"
	as := p.asKnown(random)
	look := func() { p.look(to, as, history.Request{}) }
	var looking sync.WaitGroup
	looking.Go(func() {
		for range 4 {
			sleep(ctx, 20*time.Millisecond)
			look()
		}
	})
	a := p.ask(random, to, as, history.Request{}, apptest.Patiently)
	looking.Wait()
	look()
	look()
	pause(ctx, random, time.Duration(a.RetryAfterMS)*time.Millisecond)
}

// ownCode returns a code that a back end made itself.
func ownCode(random *rand.Rand) string {
	const letters = "BCDFGHJKLMNPQRSTVWXZ"
	code := make([]byte, 8)
	for i := range code {
		code[i] = letters[random.IntN(len(letters))]
	}
	return string(code)
}

// pause waits as the answer says. Without a wait, or for a wait of a second or more, it waits for a
// random time below 200 ms.
func pause(ctx context.Context, random *rand.Rand, wait time.Duration) {
	if wait <= 0 || wait >= time.Second {
		wait = time.Duration(random.IntN(200)) * time.Millisecond
	}
	sleep(ctx, wait)
}

// stranger requests a code for someone else, in a browser of a random network. If it is accepted,
// every second stranger requests the same code again after the wait in the answer.
func (p *provingRun) stranger(ctx context.Context, random *rand.Rand, _ string) {
	to := fmt.Sprintf("crowd%d@example.com", random.IntN(16))
	ask := p.browser(random, to)
	a := ask("")
	sleep(ctx, 50*time.Millisecond)
	if a.StatusCode == http.StatusAccepted && random.IntN(2) == 0 {
		sleep(ctx, time.Duration(a.Quota.RetryAfter)*time.Second)
		ask(fmt.Sprintf(`,"verification_id":%q`, a.ID))
	}
}

// widget requests codes for one person, in the person's browser. It reads the verification until
// the next send is allowed, and then requests the code again.
func (p *provingRun) widget(ctx context.Context, random *rand.Rand, name string) {
	to := fmt.Sprintf("%s.%d@example.com", name, random.IntN(4))
	ask := p.browser(random, to)
	a := ask("")
	for range 3 {
		for wait := a.StatusCode == http.StatusAccepted; wait && ctx.Err() == nil; {
			sleep(ctx, 100*time.Millisecond)
			seen := p.call(http.MethodGet, "/v1/verifications/"+a.ID, "", history.Request{Kind: history.Look, Recipient: to, OwnSendsOnly: true},
				apptest.As(apptest.PublicKey))
			wait = seen.StatusCode != http.StatusOK || !seen.Quota.Allowed
		}
		if a.StatusCode != http.StatusAccepted {
			break
		}
		a = ask(fmt.Sprintf(`,"verification_id":%q`, a.ID))
	}
	pause(ctx, random, 0)
}

// randomClientIP returns a random address of a stranger.
func randomClientIP(random *rand.Rand) string {
	return fmt.Sprintf("198.%d.%d.%d", 18+random.IntN(2), random.IntN(256), random.IntN(256))
}

// browser returns a function that requests a code for the recipient, in a browser with a network of
// its own.
func (p *provingRun) browser(random *rand.Rand, to string) (ask func(more string) apptest.Answer) {
	from := randomClientIP(random)
	return func(more string) apptest.Answer {
		return p.ask(random, to, more, history.Request{OwnSendsOnly: true, Stranger: true}, apptest.As(apptest.PublicKey),
			func(r *http.Request) { r.Header.Set("X-Forwarded-For", from) })
	}
}

// formBackEnd requests codes on behalf of strangers, as a back end with a public form does, and
// through the hook of an auth server. Half of the codes are for recipients of persons and browsers.
// The others are for eight recipients that no other client uses.
func (p *provingRun) formBackEnd(ctx context.Context, random *rand.Rand, name string) {
	to := fmt.Sprintf("%s.%d@example.com", name, random.IntN(8))
	if random.IntN(2) == 0 {
		to = fmt.Sprintf("crowd%d@example.com", random.IntN(8))
	}
	if p.carriers == nil && !p.mixed.Load() && random.IntN(2) == 0 { // a hook sends no client_ip
		pause(ctx, random, p.hook(random, to))
		return
	}
	more, stranger := fmt.Sprintf(`,"client_ip":%q`, randomClientIP(random)), p.asStranger()
	if random.IntN(2) == 0 {
		more += `,"session":"of the form"`
	}
	if random.IntN(8) == 0 {
		p.look(to, "", stranger)
	}
	a := p.ask(random, to, more, stranger)
	pause(ctx, random, time.Duration(a.RetryAfterMS)*time.Millisecond)
}

// toldByHook matches the wait in the text with which a hook refuses.
var toldByHook = regexp.MustCompile(`"http_code":429,.* in (\d+) seconds?\.`)

// hook sends the request of an auth server with a code of its own. It records the answer like that
// of a back end, and returns the wait in the answer.
func (p *provingRun) hook(random *rand.Rand, to string) time.Duration {
	body := fmt.Sprintf(`{"metadata":{"uuid":"%016x"},"user":{"email":%q},"email_data":{"token":%q,`+
		`"email_action_type":"signup"}}`, random.Uint64(), to, ownCode(random))
	q, a := p.reach(http.MethodPost, "/v1/hooks/auth", body, history.Request{Kind: history.Send, Recipient: to, Stranger: true},
		func(r *http.Request) {
			now := time.Now().Add(p.observed.Ahead)
			r.Header.Del("Authorization")
			r.Header.Set("Webhook-Id", "1")
			r.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
			r.Header.Set("Webhook-Signature", standardwebhooks.Sign([][]byte{[]byte(hookSecret)}, "1", now, []byte(body)))
		})
	seconds := 0
	switch told := toldByHook.FindSubmatch(a.Raw); {
	case told != nil:
		seconds, _ = strconv.Atoi(string(told[1]))
		rule := "short"
		switch {
		case seconds > 6: // UnnamedRule counts strangers without an address together, so the wait says nothing about the recipient
			q.MayLack = true
			fallthrough
		case seconds > 2:
			rule = "long"
		}
		q.Status, q.Header = http.StatusTooManyRequests, http.Header{"Retry-After": {string(told[1])}}
		q.Body = fmt.Appendf(nil, `{"type":"/problems/quota-exceeded","retry_after":%d,"blocked_by":%q}`, seconds, rule)
	case string(a.Raw) == "{}\n": // the hook's answer has no ID, but the list of sends has it
		_, listed := p.reach(http.MethodGet, "/v1/admin/sends?request="+a.Header.Get("X-Request-Id"), "",
			history.Request{}, apptest.AsAdmin)
		var list struct {
			Sends []struct {
				ID           string
				Verification string `json:"verification_id"`
			}
		}
		if q.Status = 0; json.Unmarshal(listed.Raw, &list) == nil && len(list.Sends) == 1 {
			q.Status = http.StatusAccepted
			q.Body = fmt.Appendf(nil, `{"id":%q,"send":{"id":%q}}`, list.Sends[0].Verification, list.Sends[0].ID)
		}
	default:
		q.Status = 0
	}
	p.note(q)
	if q.Status == http.StatusAccepted {
		p.mu.Lock()
		p.hooked++
		p.mu.Unlock()
	}
	return time.Duration(seconds) * time.Second
}

// codeOf returns the code of a send's message, or "" if none came in time.
func (p *provingRun) codeOf(ctx context.Context, send string) string {
	for range 40 {
		for _, m := range slices.Backward(p.carriers.accepted()) {
			if m.ID == send {
				return m.Code
			}
		}
		for _, m := range slices.Backward(p.SMTP.Messages()) {
			if strings.HasPrefix(m.ID, send) {
				return p.CodeIn(apptest.Letter{Text: string(m.Data)})
			}
		}
		sleep(ctx, 25*time.Millisecond)
	}
	return ""
}

// list records how every send ended, as the admin API reports it. It returns true if all have
// ended.
func (p *provingRun) list() (ended bool) {
	p.Helper()
	ended = true
	for cursor := "first"; cursor != ""; {
		query := url.Values{"limit": {"200"}}
		if cursor != "first" {
			query.Set("cursor", cursor)
		}
		a := p.call(http.MethodGet, "/v1/admin/sends?"+query.Encode(), "", history.Request{Kind: history.Look}, apptest.AsAdmin)
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

// arrived records the messages that arrived, and returns their codes.
func (p *provingRun) arrived() map[string]bool {
	p.Helper()
	codes := map[string]bool{}
	p.observed.Messages = p.carriers.accepted()
	for _, m := range p.observed.Messages {
		codes[m.Code] = true
	}
	for _, m := range p.Mails() {
		code := p.CodeIn(m)
		codes[code] = true
		p.observed.Messages = append(p.observed.Messages, history.Message{Recipient: m.To, Code: code, ID: m.ID, At: m.At})
	}
	return codes
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
