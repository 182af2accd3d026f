package statistics

import (
	"sendcode/internal/store"
)

func (c *Counts) add(t store.Tally) {
	if t.Status == store.Refused {
		c.Refused += t.Requests
		return
	}
	c.Sends += t.Rows
	switch t.Status {
	case store.Failed:
		c.Failed += t.Rows
	case store.Unknown:
		c.Unknown += t.Rows
	case store.Queued, store.Sending:
		c.UnderWay += t.Rows
	default:
		c.Sent += t.Rows
	}
}
