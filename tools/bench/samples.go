package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
)

// samples are what the floors copy: an answer and a mail of the service. tools/floor reads the same fields.
type samples struct {
	Headers                http.Header
	Body, Mail             string
	Verification, Send, To string
	Digits                 string
}

// samplesFile is where the floors find them.
const samplesFile = "samples.json"

// takeSamples has the service send one code, and writes down what it answered and sent.
func (b *rig) takeSamples(service contender) error {
	head, body, mail, to, err := b.sendOne(service)
	if err != nil {
		return err
	}
	s, err := newSamples(head, body, mail, to)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(s)
	return errors.Join(err, os.WriteFile(b.path(samplesFile), raw, 0o644))
}

// sendOne has a contender send one code, and returns its answer and, unless it is bare HTTP, the text of its mail.
func (b *rig) sendOne(c contender) (head, body, mail []byte, to string, err error) {
	b.mails.keeps.Store(true)
	defer b.mails.keeps.Store(false)
	x := caller{base: c.base}
	defer x.close()
	n, err := b.send(&x)
	if err == nil && c.name != bareHTTP {
		came, err := b.mails.collect(n, n+1)
		if err != nil {
			return nil, nil, nil, "", err
		}
		mail = came[0].text
	}
	return x.head, x.body, mail, recipient(n), err
}

func newSamples(head, body, mail []byte, to string) (s samples, err error) {
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), nil)
	if err != nil {
		return s, err
	}
	for _, name := range []string{"Date", "Content-Length", "Location"} { // written anew for each answer
		response.Header.Del(name)
	}
	var answer struct {
		ID   string
		Send struct{ ID string }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return s, err
	}
	s = samples{Headers: response.Header, Body: string(body), Mail: string(mail), Verification: answer.ID, Send: answer.Send.ID, To: to}
	if s.Digits, err = codeIn(mail); err == nil && (s.Verification == "" || s.Send == "") {
		err = errors.New("the service's answer has no IDs")
	}
	return s, err
}

// codeIn finds the code in a mail: the only line of six digits.
func codeIn(mail []byte) (string, error) {
	m := regexp.MustCompile(`(?m)^\s*(\d{6})\s*$`).FindSubmatch(mail)
	if m == nil {
		return "", fmt.Errorf("no code in a mail of %d bytes", len(mail))
	}
	return string(m[1]), nil
}
