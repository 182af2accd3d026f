package store

import (
	"slices"
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

// LatestPerRecipient returns the newest row of each recipient, newest first.
func LatestPerRecipient(rows []Send) (list []Send) {
	slices.SortFunc(rows, func(a, b Send) int { return ByLogged(b, a) })
	for _, row := range rows {
		if !slices.ContainsFunc(list, func(s Send) bool { return s.Recipient == row.Recipient }) {
			list = append(list, row)
		}
	}
	return list
}
