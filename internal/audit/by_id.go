package audit

import (
	"context"

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
