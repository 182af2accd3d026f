package store

import (
	"time"

	"sendcode/internal/recipient"
)

// HeavyQuery asks who has had many counting sends lately.
type HeavyQuery struct {
	Purposes []string      // at least one; all together, as under one policy
	Within   time.Duration // before now, on the log's clock
	AtLeast  int           // sends of one recipient at one app, over one channel
	Limit    int           // how many recipients are told, from 1 to 200
}

// Check says what is wrong with it, in an error that wraps ErrBadRequest.
func (q HeavyQuery) Check() error {
	if len(q.Purposes) == 0 || !Storable(q.Purposes...) || q.AtLeast < 1 || q.Limit < 1 || q.Limit > MaxPage {
		return Bad("a crowd has purposes, a number of sends, and a limit")
	}
	return nil
}

// HeavyRecipient is one recipient with so many sends.
type HeavyRecipient struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	To        string // masked
	Purpose   string // of one of the sends
	Sends     int
	Newest    time.Time
}

// HeavyRow is a HeavyRecipient as a database tells it.
type HeavyRow struct {
	HeavyRecipient
	All int // how many recipients there are
}
