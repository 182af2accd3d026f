package audit

import (
	"slices"
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
