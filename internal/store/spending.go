package store

import (
	"time"

	"sendcode/quota"
)

// SMSCharge is the price of a text message for one spend cap.
type SMSCharge struct {
	Cap    string       // name of the cap, with its app or country; unique in a call of Spend
	Per    quota.Period // Day or Month, in UTC on the database's clock
	Amount int64        // millionths of the currency, not negative
	Limit  int64        // the most that a period may cost, including this charge
}

// SpentCharge is a charge that Spend made and UndoSpend can undo.
type SpentCharge struct {
	SMSCharge
	Period string // its first day, "2006-01-02"
	Used   int64  // in the period, including this charge
}

// CarrierHold is how long a carrier would refuse messages to a recipient.
type CarrierHold struct {
	Left  time.Duration // 0: no hold
	Whole time.Duration // from its start to its end
}

// PeriodStart returns the first day of t's month with quota.Month, otherwise t's day, in UTC as
// "2006-01-02".
func PeriodStart(per quota.Period, t time.Time) string {
	t = t.UTC()
	if per == quota.Month {
		t = t.AddDate(0, 0, 1-t.Day())
	}
	return t.Format(time.DateOnly)
}
