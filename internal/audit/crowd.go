package audit

import (
	"cmp"
	"context"
	"slices"
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

// Crowds implements Log.
func (m *Memory) Crowds(ctx context.Context, q CrowdQuery) (list []Crowd, all int, err error) {
	if err := q.check(); err != nil {
		return nil, 0, err
	}
	now, lost, err := m.enter(ctx, "Crowds")
	if err != nil {
		return nil, 0, err
	}
	defer m.leave(lost, &err)
	for b, rows := range m.buckets {
		c := Crowd{App: b.app, Channel: b.channel, Recipient: b.recipient}
		for _, r := range rows {
			if r.Counts && slices.Contains(q.Purposes, r.Purpose) && now.Sub(r.LoggedAt) < q.Within.Truncate(time.Microsecond) {
				c.Sends, c.To, c.Purpose = c.Sends+1, max(c.To, r.To), max(c.Purpose, r.Purpose)
				if r.LoggedAt.After(c.Newest) {
					c.Newest = r.LoggedAt
				}
			}
		}
		if c.Sends >= q.AtLeast {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b Crowd) int {
		return cmp.Or(b.Newest.Compare(a.Newest), slices.Compare(a.Recipient[:], b.Recipient[:]))
	})
	return list[:min(q.Limit, len(list))], len(list), nil
}
