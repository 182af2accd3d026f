package store

import (
	"slices"
	"time"

	"sendcode/internal/recipient"
)

// MaxLatest bounds the recipients that are looked for at once.
const MaxLatest = 5000

// CheckLatest says what is wrong with the arguments of a call of Latest.
func CheckLatest(hs []recipient.Hash, within time.Duration) error {
	if len(hs) > MaxLatest || within <= 0 {
		return Bad("the latest of up to %d recipients are read, within a positive time", MaxLatest)
	}
	return nil
}

// Latest leaves the newest row of each recipient, newest first.
func Latest(rows []Send) (list []Send) {
	slices.SortFunc(rows, func(a, b Send) int { return ByLogged(b, a) })
	for _, row := range rows {
		if !slices.ContainsFunc(list, func(s Send) bool { return s.Recipient == row.Recipient }) {
			list = append(list, row)
		}
	}
	return list
}
