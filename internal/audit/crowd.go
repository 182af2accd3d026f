package audit

import (
	"cmp"
	"context"
	"slices"
	"strings"
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

func (c *crowdRow) fields() []any {
	return []any{&c.App, &c.Channel, hashField{&c.Recipient}, &c.To, &c.Purpose, &c.Sends, timeField{&c.Newest}, &c.all}
}

// crowdSQL reads the newest part of the log by its time, and groups that.
func crowdSQL(q CrowdQuery, d dialect, since time.Time) (string, []any) {
	var c conditions
	since = micro(since)
	after, least, limit := c.arg(d.at(since)), c.arg(q.AtLeast), c.arg(q.Limit)
	var names []string
	for _, p := range q.Purposes {
		names = append(names, c.arg(p))
	}
	c.texts = []string{"s.counts", "s.logged_at > " + after, "s.purpose IN (" + strings.Join(names, ", ") + ")"}
	c.logged(d, since, time.Time{})
	return `SELECT s.app, s.channel, s.recipient, max(s.masked), max(s.purpose), count(*), max(s.logged_at), count(*) OVER ()
FROM sends s` + c.where() + `
GROUP BY s.app, s.channel, s.recipient HAVING count(*) >= ` + least + ` ORDER BY max(s.logged_at) DESC, s.recipient LIMIT ` + limit, c.args
}

func total(rows []crowdRow, err error) ([]Crowd, int, error) {
	if err != nil || len(rows) == 0 {
		return nil, 0, err
	}
	return each(rows, func(c crowdRow) Crowd { return c.Crowd }), rows[0].all, nil
}

// Crowds implements Log.
func (p *Postgres) Crowds(ctx context.Context, q CrowdQuery) ([]Crowd, int, error) {
	if err := q.check(); err != nil {
		return nil, 0, err
	}
	now, err := p.clock(ctx)
	if err != nil {
		return nil, 0, err
	}
	query, args := crowdSQL(q, postgresWords, now.Add(-q.Within.Truncate(time.Microsecond)))
	return total(readRows(ctx, p, (*crowdRow).fields, query, args...))
}

// Crowds implements Log.
func (s *SQLite) Crowds(ctx context.Context, q CrowdQuery) ([]Crowd, int, error) {
	if err := q.check(); err != nil {
		return nil, 0, err
	}
	query, args := crowdSQL(q, sqliteWords, micro(s.now()).Add(-q.Within.Truncate(time.Microsecond)))
	list, err := sqliteRows(ctx, s, (*crowdRow).fields, query, args...)
	return total(list, err)
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
