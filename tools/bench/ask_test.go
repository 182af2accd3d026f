//go:build nightly

package bench

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// These are the workloads. The workloads after the first one use the codes that it sent: look and
// check use each code once. The floods send to one recipient, or to many recipients in turn, and
// are refused because the rule's minute is not over.
const (
	send      = "send"
	flood     = "flood of refusals"
	wideFlood = "flood over recipients"
	look      = "look"
	check     = "right check"
)

var workloads = []string{send, flood, wideFlood, look, check}

const (
	apiKey = "sk_0123456789abcdefghijABCDEFGHIJ"
	// mostListed bounds the sends that the later workloads use.
	mostListed = 20_000
	// mostFlooded bounds the recipients of a flood over all of them.
	mostFlooded = 10_000
	// settle is the longest time for an answer, or for the last mail after it.
	settle = 60 * time.Second
)

// opened is a code that was requested.
type opened struct {
	n        int64 // the number of the code's recipient
	id, code string
}

// to returns the recipient, which always has the same length.
func (o *opened) to() string { return fmt.Sprintf("someone-%d@example.com", o.n) }

// request also has the status that the answer must have.
type request struct {
	method, path, header, body string
	status                     int
	wantText                   string
}

// known is the member by which a back end says that it knows the person.
const known = `,"trust":"known"`

// newServiceRequest makes requests for the service and the floor.
func newServiceRequest(workload string, o *opened) request {
	const path = "/v1/verifications"
	r := request{
		http.MethodPost, path, "Authorization: Bearer " + apiKey + "\r\nContent-Type: application/json\r\n",
		`{"channel":"email","to":"` + o.to() + `","locale":"en"` + known + `}`, http.StatusAccepted, "",
	}
	switch workload {
	case flood, wideFlood:
		r.status = http.StatusTooManyRequests
	case look:
		r.method, r.path, r.body, r.status, r.wantText = http.MethodGet, path+"/"+o.id, "", http.StatusOK, `"quota":`
	case check:
		r.path, r.status, r.wantText = path+"/"+o.id+"/check", http.StatusOK, `"valid":true`
		r.body = `{"code":"` + o.code + `"}`
	}
	return r
}

// newOlderServiceRequest makes requests for older builds, in which every person counts as known.
func newOlderServiceRequest(workload string, o *opened) request {
	r := newServiceRequest(workload, o)
	r.body = strings.Replace(r.body, known, "", 1)
	return r
}

// newOTPGatewayRequest makes requests for otpgateway, which answers a send only after the mail, and
// with the code.
func newOTPGatewayRequest(workload string, o *opened) request {
	auth := base64.StdEncoding.EncodeToString([]byte("bench:secret"))
	r := request{
		http.MethodPut, fmt.Sprintf("/api/otp/someone-%d", o.n),
		"Authorization: Basic " + auth + "\r\nContent-Type: application/x-www-form-urlencoded\r\n",
		"provider=smtp&to=" + o.to(), http.StatusOK, `"otp":`,
	}
	if workload == check {
		r.method, r.body = http.MethodPost, "otp="+o.code
	}
	return r
}

// caller is one connection of a client in plain HTTP/1.1. The client of net/http would take more
// processor time than the measured programs.
type caller struct {
	base string
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	size int // the size of the last answer, without its first line
	body []byte
}

func (c *caller) close() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// do makes one request, and fails unless the answer is as expected. body has the answer until the
// next call.
func (c *caller) do(r request) error {
	if c.conn == nil {
		conn, err := net.Dial("tcp", c.base)
		if err != nil {
			return err
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	_ = c.conn.SetDeadline(time.Now().Add(settle))
	c.out = fmt.Appendf(c.out[:0], "%s %s HTTP/1.1\r\nHost: bench\r\n%sContent-Length: %d\r\n\r\n%s",
		r.method, r.path, r.header, len(r.body), r.body)
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if c.body, err = io.ReadAll(answer.Body); err != nil {
		return err
	}
	c.size = len(c.body)
	for name, values := range answer.Header {
		c.size += len(name) + len(": \r\n") + len(values[0])
	}
	if answer.StatusCode != r.status || !bytes.Contains(c.body, []byte(r.wantText)) {
		return fmt.Errorf("%s %s: %s %s", r.method, r.path, answer.Status, c.body)
	}
	return nil
}

// field returns the text of a field of the last answer, or "".
func (c *caller) field(name string) string {
	_, rest, _ := bytes.Cut(c.body, []byte(`"`+name+`":"`))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(text)
}

// sample has the instants of a request and of its answer.
type sample struct {
	*opened
	asked, answered time.Time
}

// one makes a request and records the code and ID in the answer.
func (c *contender) one(x *caller, workload string, o *opened) (sample, error) {
	asked := time.Now()
	err := x.do(c.newRequest(workload, o))
	s := sample{o, asked, time.Now()}
	if o.id == "" {
		o.id, o.code = x.field("id"), x.field("otp")
	}
	return s, err
}

// closed makes callers send one request after the other, as long as next returns a code.
func (ri *rig) closed(c *contender, callers int, workload string, next func() *opened) []sample {
	samples, failures := make([][]sample, callers), make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			x := &caller{base: c.base}
			defer x.close()
			for o := next(); o != nil && failures[i] == nil; o = next() {
				var s sample
				s, failures[i] = c.one(x, workload, o)
				samples[i] = append(samples[i], s)
			}
		})
	}
	all.Wait()
	ri.must(errors.Join(failures...))
	return slices.Concat(samples...)
}

// receiver is a mail server that accepts everything. It takes as little processor time as possible,
// since it shares the processors with the measured programs.
type receiver struct {
	net.Listener
	secured net.Listener // otpgateway connects here, because it sends no mail without STARTTLS
	tls     *tls.Config
	came    sync.Map // the mails, by the number of the recipient
	size    atomic.Int64
}

type mail struct {
	at   time.Time // when the final dot came
	code string    // its only line of six digits
}

func (r *receiver) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go r.session(conn, l == r.secured)
	}
}

// session serves SMTP with PIPELINING on conn. Except at DATA and STARTTLS, it collects replies
// until it has read all commands that have arrived.
func (r *receiver) session(conn net.Conn, secured bool) {
	defer conn.Close()
	in, out := bufio.NewReaderSize(conn, 16<<10), bufio.NewWriter(conn)
	_, _ = out.WriteString("220 localhost ready\r\n")
	to := int64(0)
	for in.Buffered() > 0 || out.Flush() == nil {
		line, err := in.ReadSlice('\n')
		if err != nil || len(line) < 4 {
			return
		}
		reply := "250 2.0.0 OK\r\n"
		switch strings.ToUpper(string(line[:4])) {
		case "EHLO":
			reply = "250-localhost\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n"
			if secured {
				reply = "250-localhost\r\n250 STARTTLS\r\n"
			}
		case "STAR":
			_, _ = out.WriteString("220 2.0.0 go on\r\n")
			if out.Flush() != nil {
				return
			}
			conn, secured = tls.Server(conn, r.tls), false
			in, out, reply = bufio.NewReaderSize(conn, 16<<10), bufio.NewWriter(conn), ""
		case "RCPT":
			_, rest, _ := strings.Cut(string(line), "<someone-")
			digits, _, _ := strings.Cut(rest, "@")
			to, _ = strconv.ParseInt(digits, 10, 64)
		case "DATA":
			_, _ = out.WriteString("354 go on\r\n")
			if out.Flush() != nil {
				return
			}
			code, err := r.content(in)
			if err != nil {
				return
			}
			r.came.Store(to, mail{time.Now(), code})
		case "QUIT":
			reply = "221 2.0.0 bye\r\n"
		}
		_, _ = out.WriteString(reply)
	}
}

// content reads a mail up to the final dot.
func (r *receiver) content(in *bufio.Reader) (code string, err error) {
	size := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil || string(line) == ".\r\n" {
			r.size.Store(int64(size))
			return code, err
		}
		size += len(line)
		if line = bytes.TrimSpace(line); len(line) == 6 && len(bytes.Trim(line, "0123456789")) == 0 {
			code = string(line)
		}
	}
}

// collect returns when the mail of a send came, and records its code.
func (ri *rig) collect(o *opened) time.Time {
	for deadline := time.Now().Add(settle); ; <-time.After(time.Millisecond) {
		if came, ok := ri.mails.came.LoadAndDelete(o.n); ok {
			if o.code == "" {
				o.code = came.(mail).code
			}
			return came.(mail).at
		}
		if time.Now().After(deadline) {
			ri.Fatalf("no mail to %s within %v", o.to(), settle)
		}
	}
}
