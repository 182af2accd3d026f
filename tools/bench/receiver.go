package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// settle is how long mails may take to arrive after the last answer.
const settle = 30 * time.Second

// receiver is a mail server that takes everything. It is as cheap as one can be, for it shares the processors with what is measured.
type receiver struct {
	net.Listener
	mu    sync.Mutex
	dots  []time.Time      // final dots, by the numbers of the recipients; zero: none came
	texts map[int64][]byte // nil: none are kept
}

func startReceiver() (*receiver, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{Listener: listener}
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

func (r *receiver) addr() string { return r.Addr().String() }

// keep has it keep the texts of mails until they are asked for.
func (r *receiver) keep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = map[int64][]byte{}
}

// times are when the mails to the recipients from first on and before end arrived. It waits until they have.
func (r *receiver) times(first, end int64) (times []time.Time, err error) {
	tick, late := time.NewTicker(5*time.Millisecond), time.After(settle)
	defer tick.Stop()
	for {
		if times = r.arrived(first, end); len(times) == int(end-first) {
			return times, nil
		}
		select {
		case <-tick.C:
		case <-late:
			return nil, fmt.Errorf("no mail to recipient %d within %v", first+int64(len(times)), settle)
		}
	}
}

// arrived are the times of the first mails that are there.
func (r *receiver) arrived(first, end int64) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	dots := r.dots[min(first-firstRecipient, int64(len(r.dots))):min(end-firstRecipient, int64(len(r.dots)))]
	if missing := slices.IndexFunc(dots, time.Time.IsZero); missing >= 0 {
		dots = dots[:missing]
	}
	return slices.Clone(dots)
}

// letters are the mails to these recipients, as they came since keep.
func (r *receiver) letters(first, end int64) (texts [][]byte, err error) {
	if _, err := r.times(first, end); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := first; n < end; n++ {
		texts = append(texts, r.texts[n])
	}
	r.texts = nil
	return texts, nil
}

// took notes the final dot of a mail. Mails to recipients without a number are not noted.
func (r *receiver) took(n int64, text []byte) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.texts != nil {
		r.texts[n] = bytes.Clone(text)
	}
	if n -= firstRecipient; n < 0 {
		return
	}
	if more := n + 1 - int64(len(r.dots)); more > 0 {
		r.dots = append(r.dots, make([]time.Time, more)...)
	}
	r.dots[n] = now
}

// session is one session of SMTP with PIPELINING: replies are held back while there is more to read.
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
