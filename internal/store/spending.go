package store

import (
	"time"

	"sendcode/quota"
)

// SMSCharge is the cost of one text message, charged to one spend cap.
type SMSCharge struct {
	Cap    string       // name of the cap, with its app or country; unique in one call of Spend
	Per    quota.Period // quota.Day or quota.Month, in UTC on the database's clock
	Amount int64        // millionths of the currency, not negative
	Limit  int64        // largest sum in one period, including this charge
}

// SpentCharge is a charge that was made.
type SpentCharge struct {
	SMSCharge
	Period string // the first day of the period, "2006-01-02"
	Used   int64  // sum in the period, including this charge
}

// CarrierHold says for how long a carrier would refuse messages to a recipient.
type CarrierHold struct {
	Left  time.Duration // how long the hold still lasts; 0: there is no hold
	Whole time.Duration // how long the hold lasts, from its start to its end
}

// PeriodStart returns the first day of the month of t if per is quota.Month, otherwise the day of
// t. The day is in UTC, as "2006-01-02".
func PeriodStart(per quota.Period, t time.Time) string {
	t = t.UTC()
	if per == quota.Month {
		t = t.AddDate(0, 0, 1-t.Day())
	}
	return t.Format(time.DateOnly)
}
