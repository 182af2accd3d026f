//go:build nightly

package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"regexp"
)

// samples are what the floors copy: an answer and a mail of the service. tools/floor reads the same
// fields.
type samples struct {
	Headers                http.Header
	Body, Mail             string
	Verification, Send, To string
	Digits                 string
}

// samplesFile is where the floors find them.
const samplesFile = "samples.json"

// takeSamples has the service send one code, and writes down what it answered and sent.
func (b *rig) takeSamples(service contender) {
	raw, err := json.Marshal(b.newSamples(b.sendOne(service)))
	b.must(errors.Join(err, os.WriteFile(b.path(samplesFile), raw, 0o644)))
}

// sendOne has a contender send one code, and returns its answer and, unless it is bare HTTP, the
// text of its mail.
func (b *rig) sendOne(c contender) (head, body, mail []byte, to string) {
	b.mails.keeps.Store(true)
	defer b.mails.keeps.Store(false)
	x := caller{base: c.base}
	defer x.close()
	n, err := b.send(&x)
	b.must(err)
	if c.name != bareHTTP {
		came, err := b.mails.collect(n, n+1)
		b.must(err)
		mail = came[0].text
	}
	return x.head, x.body, mail, recipient(n)
}

func (b *rig) newSamples(head, body, mail []byte, to string) samples {
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), nil)
	b.must(err)
	for _, name := range []string{"Date", "Content-Length", "Location"} { // written anew for each answer
		response.Header.Del(name)
	}
	var answer struct {
		ID   string
		Send struct{ ID string }
	}
	b.must(json.Unmarshal(body, &answer))
	if answer.ID == "" || answer.Send.ID == "" {
		b.Fatal("the service's answer has no IDs")
	}
	return samples{Headers: response.Header, Body: string(body), Mail: string(mail), Verification: answer.ID,
		Send: answer.Send.ID, To: to,
		Digits: b.codeIn(mail)}
}

// codeIn finds the code in a mail: the only line of six digits.
func (b *rig) codeIn(mail []byte) string {
	m := regexp.MustCompile(`(?m)^\s*(\d{6})\s*$`).FindSubmatch(mail)
	if m == nil {
		b.Fatalf("no code in a mail of %d bytes", len(mail))
	}
	return string(m[1])
}
