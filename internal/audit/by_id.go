package audit

import (
	"github.com/google/uuid"
)

func checkIDs(ids []uuid.UUID) error {
	if len(ids) > maxTaken {
		return bad("up to %d rows are read by their IDs", maxTaken)
	}
	return nil
}
