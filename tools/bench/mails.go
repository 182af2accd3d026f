package main

import (
	"encoding/gob"
	"fmt"
	"slices"
	"time"
)

// mails is the mail server, seen from here.
type mails struct {
	addr    string
	process *child
	queries *gob.Encoder
	answers *gob.Decoder
}

// settle is how long mails may take to arrive after the last answer.
const settle = 30 * time.Second

func (b *rig) startMails() (*mails, error) {
	cmd, err := self(receiveCommand)
	if err != nil {
		return nil, err
	}
	c, err := b.start("mail server", cmd)
	if err != nil {
		return nil, err
	}
	return &mails{addr: c.base, process: c.process, queries: gob.NewEncoder(c.process.input), answers: gob.NewDecoder(c.process.output)}, nil
}

func (m *mails) query(o mailQuery) (answer mailReport, err error) {
	if err = m.queries.Encode(o); err == nil {
		err = m.answers.Decode(&answer)
	}
	if missing := slices.Index(answer.Times, 0); err == nil && missing >= 0 {
		err = fmt.Errorf("no mail to recipient %d within %v", o.First+int64(missing), settle)
	}
	return answer, err
}

// keep has the mail server keep mails until it is asked for them.
func (m *mails) keep() error {
	_, err := m.query(mailQuery{Keep: true})
	return err
}

// times are when the mails to some recipients arrived.
func (m *mails) times(first, last int64) ([]int64, error) {
	answer, err := m.query(mailQuery{First: first, Last: last})
	return answer.Times, err
}

// texts are the mails that were kept, as they came.
func (m *mails) texts(first, last int64) ([][]byte, error) {
	answer, err := m.query(mailQuery{First: first, Last: last, Text: true})
	return answer.Texts, err
}
