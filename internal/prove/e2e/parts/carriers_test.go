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
)

// carriers are two carriers of text messages. One may fail; both report what became of a message.
type carriers struct {
	p       *proof
	mu      sync.Mutex
	random  *rand.Rand
	known   map[string]string // numbers by recipient, and recipients by number
	texts   []*history.Message
	ill     string        // the path of the one that fails
	says    int           // its status; 0: it is silent
	well    chan struct{} // closed when it is well again
	reports sync.WaitGroup
}

const publicURL = "https://codes.example"

// sms has the settings of text messages at some URL. No prefix is paused.
func (c *carriers) sms(url string) string {
	text := "sms:\n  public_url: " + publicURL + "\n  countries: [DE]\n  watch: {sends: 100000}\n  carriers:\n"
	for _, name := range []string{"first", "second"} {
		text += fmt.Sprintf(`  - {name: %s, type: http, url: "%s/%[1]s", receipt: status, delivered: [DELIVERED], undelivered: [LOST],
     body: '{"id":"{id}","to":"{to}","code":"{code}","text":"{text}","callback":"{callback}"}',
     answer: {id: $.id, code: $.said, codes: {taken: accepted, never: rejected, later: temporary}}}
`, name, url)
	}
	return text
}

func startCarriers(p *proof) *carriers {
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
	if json.NewDecoder(r.Body).Decode(&m) != nil { // it was cut
		panic(http.ErrAbortHandler)
	}
	c.mu.Lock()
	to, ill, says, well, chance := c.known[m.To], c.ill == r.URL.Path, c.says, c.well, c.random.IntN(40)
	c.mu.Unlock()
	said := "taken"
	switch {
	case ill && says != 0:
		w.WriteHeader(says)
	case ill:
		if chance%2 == 0 {
			c.take(history.Message{Recipient: to, Code: m.Code, ID: m.ID}, m.Callback)
		}
		<-well
		panic(http.ErrAbortHandler)
	case slices.Contains(bouncing, to):
		said = "never"
	case chance == 0:
		said = "later"
	default:
		c.take(history.Message{Recipient: to, Code: m.Code, ID: m.ID}, m.Callback)
		time.Sleep(time.Duration(chance) * time.Millisecond) // its receipt may come before
	}
	_, _ = io.WriteString(w, `{"id":"`+m.ID+`","said":"`+said+`"}`)
}

// receipt is what a carrier reports after a while.
type receipt struct {
	after     time.Duration
	delivered bool
}

// courses are what carriers report of a message: one of them is chosen.
var courses = [][]receipt{
	{}, {{0, true}}, {{0, false}}, {{3 * time.Second, true}}, {{2 * time.Second, false}}, {{0, true}, {0, true}},
	{{0, false}, {time.Second, true}}, {{0, true}, {time.Second, false}},
}

// take takes a message, and reports what becomes of it.
func (c *carriers) take(m history.Message, callback string) {
	m.At = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts = append(c.texts, &m)
	for _, r := range courses[c.random.IntN(len(courses))] {
		c.reports.Go(func() { c.report(&m, callback, r) })
	}
}

// report repeats a receipt until it is taken.
func (c *carriers) report(m *history.Message, callback string, r receipt) {
	told, word := &m.Lost, "LOST"
	if r.delivered {
		told, word = &m.Delivered, "DELIVERED"
	}
	time.Sleep(r.after)
	note := func(to history.Receipt) {
		c.mu.Lock()
		defer c.mu.Unlock()
		*told = max(*told, to)
	}
	note(history.Reported)
	for range 600 {
		_, a := c.p.reach(http.MethodPost, strings.TrimPrefix(callback, publicURL), "status="+word, history.Request{}, func(r *http.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		})
		if a.StatusCode/100 == 2 {
			note(history.Taken)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	c.p.Errorf("a receipt of %s was never taken", m.ID)
}

// taken returns the messages that were taken.
func (c *carriers) taken() (all []history.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.texts {
		all = append(all, *m)
	}
	return all
}

// ofCarriers are faults of one of the two.
var ofCarriers = []fault{
	{"failures of a carrier", func(p *proof, ctx context.Context) { p.carriers.suffer(ctx, []int{500, 503}[p.random.IntN(2)]) }},
	{"stalls of a carrier", func(p *proof, ctx context.Context) { p.carriers.suffer(ctx, 0) }},
}

func (c *carriers) suffer(ctx context.Context, says int) {
	c.mu.Lock()
	c.ill, c.says, c.well = []string{"/first", "/second"}[c.random.IntN(2)], says, make(chan struct{})
	c.mu.Unlock()
	c.p.pause(ctx, 1000, 3000)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ill = ""
	close(c.well)
}
