package store

import (
	"time"

	"sendcode/quota"
)

// Charge is what a text message would cost an account.
type Charge struct {
	Account string       // what a cap looks at, named by the caller
	Per     quota.Period // quota.Day or quota.Month, in UTC on the log's clock
	Amount  int64        // millionths of the currency, not negative
	Limit   int64        // which Used may reach in one period
}

// Spent is a charge that was made.
type Spent struct {
	Charge
	Period string // the first day of its period, "2006-01-02"
	Used   int64  // in that period, with this charge
}

// CarrierHold keeps messages from a recipient for a while, as a carrier told.
type CarrierHold struct {
	Left  time.Duration // 0: there is none
	Whole time.Duration
}

// PeriodStart returns the first day of the period that t is in, which is its day, or its month if per is quota.Month; in UTC, as
// "2006-01-02".
func PeriodStart(per quota.Period, t time.Time) string {
	t = t.UTC()
	if per == quota.Month {
		t = t.AddDate(0, 0, 1-t.Day())
	}
	return t.Format(time.DateOnly)
}
