package store

import (
	"github.com/google/uuid"
)

func CheckIDs(ids []uuid.UUID) error {
	if len(ids) > maxTaken {
		return Bad("up to %d rows are read by their IDs", maxTaken)
	}
	return nil
}
