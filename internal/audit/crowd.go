package audit

import (
	"time"

	"sendcode/internal/recipient"
)

// CrowdQuery asks who has had many counting sends lately.
type CrowdQuery struct {
	Purposes []string      // at least one; all together, as under one policy
	Within   time.Duration // before now, on the log's clock
	AtLeast  int           // sends of one recipient at one app, over one channel
	Limit    int           // how many recipients are told, from 1 to 200
}

func (q CrowdQuery) check() error {
	if len(q.Purposes) == 0 || !storable(q.Purposes...) || q.AtLeast < 1 || q.Limit < 1 || q.Limit > maxPage {
		return bad("a crowd has purposes, a number of sends, and a limit")
	}
	return nil
}

// Crowd is one recipient with so many sends.
type Crowd struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	To        string // masked
	Purpose   string // of one of the sends
	Sends     int
	Newest    time.Time
}

// crowdRow is a Crowd as a database tells it.
type crowdRow struct {
	Crowd
	all int // how many recipients there are
}
