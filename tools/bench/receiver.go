package main

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// receiveCommand makes this program the mail server, until its input ends.
const receiveCommand = "receive"

// mailQuery asks the mail server for what it knows of the mails to some recipients, once all of them are there.
type mailQuery struct {
	First, Last int64 // of the numbers in their addresses; Last is not one of them
	Keep        bool  // from now on mails are kept
	Text        bool  // also their texts, which were kept
}

type mailReport struct {
	Times []int64 // of the final dots, ns since 1970; 0: none came
	Texts [][]byte
}

// receiver is a mail server that takes everything. It is as cheap as one can be, for it shares the processors with what is measured.
type receiver struct {
	mu    sync.Mutex
	times []int64
	texts map[int64][]byte // nil: none are kept
}

func receive([]string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	r := &receiver{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.session(conn)
		}
	}()
	return r.answerAll(os.Stdin, os.Stdout)
}

// answerAll answers queries until there are no more.
func (r *receiver) answerAll(in io.Reader, out io.Writer) error {
	queries, answers := gob.NewDecoder(in), gob.NewEncoder(out)
	for {
		var o mailQuery
		if err := queries.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := answers.Encode(r.answer(o)); err != nil {
			return err
		}
	}
}

func (r *receiver) answer(o mailQuery) (m mailReport) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(settle); !r.complete(o) && time.Now().Before(end); {
		<-tick.C
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := o.First; n < o.Last; n++ {
		m.Times = append(m.Times, r.at(n))
		if o.Text {
			m.Texts = append(m.Texts, r.texts[n])
		}
	}
	if r.texts = nil; o.Keep {
		r.texts = map[int64][]byte{}
	}
	return m
}

func (r *receiver) complete(o mailQuery) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := o.First; n < o.Last; n++ {
		if r.at(n) == 0 {
			return false
		}
	}
	return true
}

func (r *receiver) at(n int64) int64 {
	if n -= firstRecipient; n < int64(len(r.times)) {
		return r.times[n]
	}
	return 0
}

// took notes the final dot of a mail. Mails to recipients without a number are not noted.
func (r *receiver) took(n int64, text []byte) {
	now := time.Now().UnixNano()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.texts != nil {
		r.texts[n] = bytes.Clone(text)
	}
	if n -= firstRecipient; n < 0 {
		return
	}
	for int64(len(r.times)) <= n {
		r.times = append(r.times, 0)
	}
	r.times[n] = now
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
