package main

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
)

// samples are an answer and a mail of the service, and what in them differs from send to send.
type samples struct {
	Headers                http.Header
	Body, Mail             string
	Verification, Send, To string
	Digits                 string

	body, mail template
}

func (s *samples) read(file string) error {
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, s)
	}
	s.body, s.mail = s.cut(s.Body), s.cut(s.Mail)
	return err
}

// template is text with fields: every second part names one.
type template []string

func (s *samples) cut(text string) template {
	return strings.Split(strings.NewReplacer(s.Verification, "\x00v\x00", s.Send, "\x00s\x00", s.To,
		"\x00t\x00", s.Digits,
		"\x00d\x00").Replace(text), "\x00")
}

func (t template) fill(x *code) []byte {
	text := make([]byte, 0, 4096)
	for i, part := range t {
		switch {
		case i%2 == 0:
			text = append(text, part...)
		case part == "v":
			text = append(text, x.verification...)
		case part == "s":
			text = append(text, x.send.String()...)
		case part == "t":
			text = append(text, x.to...)
		default:
			text = append(text, x.digits...)
		}
	}
	return text
}
