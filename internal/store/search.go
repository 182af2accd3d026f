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

// Check returns an error that wraps ErrBadRequest if the query is not valid.
func (q HeavyQuery) Check() error {
	return badRequestIf(len(q.Purposes) == 0 || !ValidTexts(q.Purposes...) || q.AtLeast < 1 || q.Limit < 1 || q.Limit > MaxPage,
		"a crowd has purposes, a number of sends, and a limit")
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

// MaxLatest bounds the recipients that are looked for at once.
const MaxLatest = 5000

// CheckLatest validates the arguments of Latest; its error wraps ErrBadRequest.
func CheckLatest(hs []recipient.Hash, within time.Duration) error {
	return badRequestIf(len(hs) > MaxLatest || within <= 0, "the latest of up to %d recipients are read, within a positive time", MaxLatest)
}

// Latest returns the newest row of each recipient, newest first.
func Latest(rows []Send) (list []Send) {
	slices.SortFunc(rows, func(a, b Send) int { return ByLogged(b, a) })
	for _, row := range rows {
		if !slices.ContainsFunc(list, func(s Send) bool { return s.Recipient == row.Recipient }) {
			list = append(list, row)
		}
	}
	return list
}
