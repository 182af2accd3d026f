package parts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	history "sendcode/internal/kit/historytest"
	"sendcode/internal/run/app/apptest"
)

// carriers are two carriers of text messages. At most one of them fails at a time. Both report the
// outcomes of most messages, some twice or in contradiction.
type carriers struct {
	p         *provingRun
	mu        sync.Mutex
	random    *rand.Rand
	known     map[string]string // numbers by recipient, and recipients by number
	texts     []history.Message
	failing   string        // the path of the carrier that fails
	status    int           // the status with which that carrier answers; 0: it does not answer
	recovered chan struct{} // closed when the carrier works again
	reports   sync.WaitGroup
}

// textMessages is the form whose codes are sent by carriers.
const textMessages = "two replicas on Postgres and Redis, with two carriers of text messages"

const publicURL = "https://codes.example"

// carrierSettings configure the carriers, and pause no prefix.
const carrierSettings = `sms:
  countries: [DE]
  watch: {sends: 100000}
  carriers:
` + carrierSetting + carrierSetting

const carrierSetting = `  - {type: http, name: %s, url: %s, receipt: status, delivered: [d], undelivered: [l],
     body: '{"id":"{id}","to":"{to}","code":"{code}","text":"{text}","callback":"{callback}"}',
     answer: {id: $.id, code: $.said, codes: {taken: accepted, never: rejected, later: temporary}}}
`

func startCarriers(p *provingRun) *carriers {
	c := &carriers{p: p, random: rand.New(rand.NewPCG(p.random.Uint64(), 1)), known: map[string]string{}}
	server := httptest.NewServer(c)
	p.Cleanup(server.Close)
	p.Env["CARRIERS"] = server.URL
	return c
}

// number returns the number that stands for a recipient.
func (c *carriers) number(recipient string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[recipient] == "" {
		number := fmt.Sprintf("+49151%08d", 10_000_000+len(c.known))
		c.known[recipient], c.known[number] = number, recipient
	}
	return c.known[recipient]
}

func (c *carriers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct{ ID, To, Code, Callback string }
	if json.NewDecoder(r.Body).Decode(&m) != nil { // the link has cut the request
		panic(http.ErrAbortHandler)
	}
	c.mu.Lock()
	to, failing, status, recovered, chance := c.known[m.To], c.failing == r.URL.Path, c.status, c.recovered, c.random.IntN(40)
	result := "taken"
	switch {
	case !failing && slices.Contains(bouncing, to):
		result = "never"
	case !failing && chance == 0:
		result = "later"
	case !failing || chance%2 == 0 && status != http.StatusServiceUnavailable:
		c.accept(history.Message{Recipient: to, Code: m.Code, ID: m.ID}, m.Callback)
	}
	c.mu.Unlock()
	switch {
	case !failing:
		apptest.Sleep(time.Duration(chance) * time.Millisecond) // the receipt may come before the answer
	case status == 0:
		<-recovered
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(status)
	}
	_, _ = io.WriteString(w, `{"id":"`+m.ID+`","said":"`+result+`"}`)
}

// reportSequences are sequences of reports on a message. A d reports that the message was
// delivered, an l that it was lost. A space is a second without a report.
var reportSequences = []string{"", "d", "l", "   d", "  l", "dd", "l d", "d l"}

// accept accepts a message, and reports its outcome. It repeats each report until the service has
// accepted the report.
func (c *carriers) accept(m history.Message, callback string) {
	sequence := reportSequences[c.random.IntN(len(reportSequences))]
	m.At, m.Delivered, m.Lost = time.Now(), strings.Contains(sequence, "d"), strings.Contains(sequence, "l")
	c.texts = append(c.texts, m)
	c.reports.Go(func() {
		for _, status := range sequence {
			if status == ' ' {
				apptest.Sleep(time.Second)
				continue
			}
			for heard := 0; heard/100 != 2 && c.p.Context().Err() == nil; apptest.Sleep(20 * time.Millisecond) {
				q, _ := c.p.reach(http.MethodGet, strings.TrimPrefix(callback, publicURL)+"&status="+string(status), "", history.Request{})
				heard = q.Status
			}
		}
	})
}

// accepted returns the messages that the carriers accepted; none if there are no carriers.
func (c *carriers) accepted() []history.Message {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.texts)
}

// carrierFails makes one of the carriers refuse its messages, answer that it is broken, or not
// answer.
func (p *provingRun) carrierFails(ctx context.Context) {
	c := p.carriers
	c.mu.Lock()
	c.failing, c.status, c.recovered = []string{"/first", "/second"}[p.random.IntN(2)], []int{503, 500, 0}[p.random.IntN(3)], make(chan struct{})
	c.mu.Unlock()
	p.pause(ctx, 1000, 3000)
	c.mu.Lock()
	c.failing = ""
	c.mu.Unlock()
	close(c.recovered)
}
