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

// takeSamples has the service send one code, and writes down what it answered and sent.
func (b *rig) takeSamples(service contender) error {
	b.mails.keep()
	n := b.recipients.Add(1) - 1
	x := caller{base: service.base}
	defer x.close()
	if err := x.mustSend(recipient(n)); err != nil {
		return err
	}
	texts, err := b.mails.letters(n, n+1)
	if err != nil {
		return err
	}
	s, err := newSamples(x.head, x.body, texts[0], recipient(n))
	if err != nil {
		return err
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	b.samples = b.path("samples.json")
	return os.WriteFile(b.samples, raw, 0o644)
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
