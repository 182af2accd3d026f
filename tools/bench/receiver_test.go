//go:build nightly

package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// settle is how long mails may take to arrive after the last answer.
const settle = 30 * time.Second

// mail is a mail that came.
type mail struct {
	at   time.Time // of the final dot
	text []byte    // nil unless texts are kept
}

// receiver is a mail server that takes everything. It is as cheap as one can be, for it shares the
// processors with what is measured.
type receiver struct {
	net.Listener
	keeps atomic.Bool // the texts of mails
	mu    sync.Mutex
	came  map[int64]mail // by the numbers of their recipients
}

func startReceiver() (*receiver, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{Listener: listener, came: map[int64]mail{}}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.session(conn)
		}
	}()
	return r, nil
}

// collect returns the mails to the recipients from first on and before end, and forgets them. It
// waits until they have come.
func (r *receiver) collect(first, end int64) (mails []mail, err error) {
	late := time.After(settle)
	for n := first; n < end; {
		r.mu.Lock()
		for m, ok := r.came[n]; ok && n < end; m, ok = r.came[n] {
			mails = append(mails, m)
			delete(r.came, n)
			n++
		}
		r.mu.Unlock()
		if n < end {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-late:
				return nil, fmt.Errorf("no mail to recipient %d within %v", n, settle)
			}
		}
	}
	return mails, nil
}

// forget forgets the mails that have come and were not collected.
func (r *receiver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.came)
}

// took notes the final dot of a mail.
func (r *receiver) took(n int64, text []byte) {
	m := mail{at: time.Now()}
	if r.keeps.Load() {
		m.text = bytes.Clone(text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came[n] = m
}

// session is one session of SMTP with PIPELINING: replies are held back while there is more to
// read.
func (r *receiver) session(conn net.Conn) {
	defer conn.Close()
	in, out := bufio.NewReaderSize(conn, 16<<10), bufio.NewWriter(conn)
	_, _ = out.WriteString("220 localhost ready\r\n")
	var to int64
	var text []byte
	for {
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
		line, err := in.ReadSlice('\n')
		if err != nil || len(line) < 4 {
			return
		}
		reply := "250 2.0.0 OK\r\n"
		switch strings.ToUpper(string(line[:4])) {
		case "EHLO":
			reply = "250-localhost\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n"
		case "RCPT":
			to = numberOf(string(line))
		case "DATA":
			_, _ = out.WriteString("354 go on\r\n")
			if out.Flush() != nil {
				return
			}
			if text, err = content(in, text[:0]); err != nil {
				return
			}
			r.took(to, text)
		case "QUIT":
			reply = "221 2.0.0 bye\r\n"
		}
		_, _ = out.WriteString(reply)
	}
}

// content reads up to the final dot, which is left out.
func content(in *bufio.Reader, text []byte) ([]byte, error) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil || string(line) == ".\r\n" {
			return text, err
		}
		text = append(text, line...)
	}
}

// recipient has its number in its address.
func recipient(n int64) string { return fmt.Sprintf("someone-%d@example.com", n) }

// numberOf finds the number in the address of a RCPT TO; 0 if there is none.
func numberOf(line string) int64 {
	_, rest, _ := strings.Cut(line, "<someone-")
	digits, _, _ := strings.Cut(rest, "@")
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}
