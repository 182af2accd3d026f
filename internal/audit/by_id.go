package audit

import (
	"context"
	"strings"

	"github.com/google/uuid"
)

func checkIDs(ids []uuid.UUID) error {
	if len(ids) > maxTaken {
		return bad("up to %d rows are read by their IDs", maxTaken)
	}
	return nil
}

// SendsByID implements Log.
func (m *Memory) SendsByID(ctx context.Context, ids []uuid.UUID) (rows []Send, err error) {
	if err := checkIDs(ids); err != nil {
		return nil, err
	}
	_, lost, err := m.enter(ctx, "SendsByID")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	for _, id := range ids {
		if row, ok := m.rows[id]; ok {
			rows = append(rows, row.Send)
		}
	}
	return rows, nil
}

// SendsByID implements Log.
func (s *SQLite) SendsByID(ctx context.Context, ids []uuid.UUID) ([]Send, error) {
	if err := checkIDs(ids); err != nil || len(ids) == 0 {
		return nil, err
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return s.sends(ctx, `SELECT `+sendColumns+` FROM sends s WHERE s.id IN (?`+strings.Repeat(", ?", len(ids)-1)+`)`, args...)
}

// SendsByID implements Log.
func (p *Postgres) SendsByID(ctx context.Context, ids []uuid.UUID) ([]Send, error) {
	if err := checkIDs(ids); err != nil || len(ids) == 0 {
		return nil, err
	}
	list := make([][16]byte, len(ids))
	for i, id := range ids {
		list[i] = id
	}
	first, last := span(list)
	return readRows(ctx, p, (*Send).fields, `SELECT `+sendColumns+` FROM sends s WHERE s.id = ANY ($1::uuid[]) AND s.id BETWEEN $2 AND $3`, list, first, last)
}
