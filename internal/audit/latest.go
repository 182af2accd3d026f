package audit

import (
	"context"
	"slices"
	"strings"
	"time"

	"sendcode/internal/recipient"
)

// maxLatest bounds the recipients that are looked for at once.
const maxLatest = 5000

func checkLatest(hs []recipient.Hash, within time.Duration) error {
	if len(hs) > maxLatest || within <= 0 {
		return bad("the latest of up to %d recipients are read, within a positive time", maxLatest)
	}
	return nil
}

// Latest implements Log.
func (m *Memory) Latest(ctx context.Context, hs []recipient.Hash, within time.Duration) (rows []Send, err error) {
	if err := checkLatest(hs, within); err != nil {
		return nil, err
	}
	now, lost, err := m.enter(ctx, "Latest")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	for _, row := range m.rows {
		if slices.Contains(hs, row.Recipient) && now.Sub(row.LoggedAt) < within {
			rows = append(rows, row.Send)
		}
	}
	return latest(rows), nil
}

// latest leaves the newest row of each recipient, newest first.
func latest(rows []Send) (list []Send) {
	slices.SortFunc(rows, func(a, b Send) int { return byLogged(b, a) })
	for _, row := range rows {
		if !slices.ContainsFunc(list, func(s Send) bool { return s.Recipient == row.Recipient }) {
			list = append(list, row)
		}
	}
	return list
}

// Latest implements Log.
func (s *SQLite) Latest(ctx context.Context, hs []recipient.Hash, within time.Duration) ([]Send, error) {
	if err := checkLatest(hs, within); err != nil || len(hs) == 0 {
		return nil, err
	}
	args := []any{µs(micro(s.now()).Add(-within))}
	for _, h := range hs {
		args = append(args, h[:])
	}
	var all []Send
	for _, half := range []string{"s.number > 0", "s.number = 0"} {
		rows, err := s.sends(ctx, `SELECT `+sendColumns+` FROM sends s WHERE `+half+` AND s.logged_at > ? AND s.recipient IN (?`+strings.Repeat(", ?", len(hs)-1)+`)`, args...)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return latest(all), nil
}

// Latest implements Log: one look at the index for each recipient, whatever the planner thinks of how many there are.
func (p *Postgres) Latest(ctx context.Context, hs []recipient.Hash, within time.Duration) ([]Send, error) {
	if err := checkLatest(hs, within); err != nil || len(hs) == 0 {
		return nil, err
	}
	list := make([][]byte, len(hs))
	for i, h := range hs {
		list[i] = h[:]
	}
	rows, err := readRows(ctx, p, (*Send).fields, p.sql(`
SELECT s.* FROM unnest($1::bytea[]) AS h (recipient) CROSS JOIN LATERAL (
    (SELECT `+sendColumns+` FROM sends s WHERE s.recipient = h.recipient AND s.number > 0 AND s.logged_at > {{now}} - $2::interval
     ORDER BY s.logged_at DESC, s.id DESC LIMIT 1)
    UNION ALL
    (SELECT `+sendColumns+` FROM sends s WHERE s.recipient = h.recipient AND s.number = 0 AND s.logged_at > {{now}} - $2::interval
     ORDER BY s.logged_at DESC, s.id DESC LIMIT 1)
) s`), list, within)
	return latest(rows), err
}
