package store

import (
	"time"

	"sendcode/internal/base/recipient"
)

// FrequentRecipientsQuery selects the recipients with many recent counted sends.
type FrequentRecipientsQuery struct {
	Purposes []string      // at least one; their sends are counted together, as under one policy
	Within   time.Duration // how far back sends are counted, on the database's clock
	AtLeast  int           // least number of sends of one recipient in one app and channel
	Limit    int           // recipients to return, 1 to 200
}

// FrequentRecipient is one recipient of a FrequentRecipientsQuery, in one app and channel.
type FrequentRecipient struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	To        string // masked
	Purpose   string // of one of the sends
	Sends     int
	Newest    time.Time // LoggedAt of the newest send
}
