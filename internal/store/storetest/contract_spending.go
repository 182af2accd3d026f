package storetest

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

func charge(account string, amount, limit int64) store.Charge {
	return store.Charge{Account: account, Per: quota.Day, Amount: amount, Limit: limit}
}

// spend makes charges and says by whom they were refused.
func (f *Fixture) spend(t *testing.T, charges ...store.Charge) ([]store.Spent, string) {
	t.Helper()
	spent, refusedBy := Must2(f.Spend(t.Context(), charges))(t)
	if (len(spent) == len(charges)) != (refusedBy == "") || refusedBy != "" && len(spent) != 0 {
		t.Fatalf("%d of %d charges, refused by %q", len(spent), len(charges), refusedBy)
	}
	return spent, refusedBy
}

func spendTogether(t *testing.T, f *Fixture) {
	spent, _ := f.spend(t, charge("b", 40, 100), charge("a", 60, 100))
	Equal(t, "first", spent, []store.Spent{{Charge: charge("a", 60, 100), Period: "2030-03-01", Used: 60},
		{Charge: charge("b", 40, 100), Period: "2030-03-01", Used: 40}})
	_, by := f.spend(t, charge("a", 40, 100), charge("b", 61, 100))
	Equal(t, "refused by", by, "b")
	spent, _ = f.spend(t, charge("a", 40, 100)) // to the last millionth: the refusal had spent nothing
	Equal(t, "used", spent[0].Used, int64(100))
	_, by = f.spend(t, charge("a", 1, 100))
	Equal(t, "refused by", by, "a")
	f.spend(t, charge("a", 0, 100))
	_, by = f.spend(t, charge("new", 101, 100))
	Equal(t, "refused by", by, "new")
	OK(t, f.Unspend(t.Context(), spent))
	spent, _ = f.spend(t, charge("a", 40, 100))
	Equal(t, "used again", spent[0].Used, int64(100))
	OK(t, f.Unspend(t.Context(), append(spent, spent...)))
	OK(t, f.Unspend(t.Context(), spent)) // never below nothing
	spent, _ = f.spend(t, charge("a", 100, 100))
	Equal(t, "used at last", spent[0].Used, int64(100))
}

func spendPeriods(t *testing.T, f *Fixture) {
	month := store.Charge{Account: "month", Per: quota.Month, Amount: 10, Limit: 10}
	first, _ := f.spend(t, charge("day", 10, 10), month)
	f.Pass(12*time.Hour - 123457*time.Microsecond - time.Microsecond) // the last microsecond of the day
	_, by := f.spend(t, charge("day", 1, 10))
	Equal(t, "before midnight", by, "day")
	f.Pass(time.Microsecond)
	spent, _ := f.spend(t, charge("day", 10, 10))
	Equal(t, "after midnight", spent[0].Period, "2030-03-02")
	_, by = f.spend(t, month)
	Equal(t, "in the same month", by, "month")
	OK(t, f.Unspend(t.Context(), first)) // what came back belongs to yesterday, and to this month
	_, by = f.spend(t, charge("day", 1, 10))
	Equal(t, "still spent", by, "day")
	f.spend(t, month)
	f.Pass(30 * 24 * time.Hour)
	spent, _ = f.spend(t, month)
	Equal(t, "next month", spent[0].Period, "2030-04-01")
}

// Many at once, over two replicas and two accounts each: exactly as many as fit.
func spendInParallel(t *testing.T, f *Fixture) {
	Equal(t, "let in", f.atOnce(t, 60, func(log store.Store, n int) (bool, error) {
		spent, _, err := log.Spend(t.Context(), []store.Charge{charge("all", 7, 100), charge([]string{"app-a", "app-b"}[n/2%2], 7, 63)})
		return len(spent) > 0, err
	}), 14)
	spent, _ := f.spend(t, charge("all", 0, 100))
	Equal(t, "used", spent[0].Used, int64(98))
}

func carrierHolds(t *testing.T, f *Fixture) {
	h := recipient.Hash{15: 9}
	look := func(ch recipient.Channel, h recipient.Hash, want store.CarrierHold) {
		t.Helper()
		Equal(t, "embargo", Must(f.Replica.HeldBack(t.Context(), ch, h))(t), want)
	}
	look(recipient.SMS, h, store.CarrierHold{})
	OK(t, f.HoldBack(t.Context(), recipient.SMS, h, time.Hour))
	look(recipient.SMS, h, store.CarrierHold{Left: time.Hour, Whole: time.Hour})
	look(recipient.Email, h, store.CarrierHold{})
	look(recipient.SMS, recipient.Hash{15: 8}, store.CarrierHold{})
	f.Pass(20 * time.Minute)
	OK(t, f.HoldBack(t.Context(), recipient.SMS, h, time.Minute)) // shorter: the longer one stays
	look(recipient.SMS, h, store.CarrierHold{Left: 40 * time.Minute, Whole: time.Hour})
	f.Pass(40*time.Minute - time.Microsecond)
	look(recipient.SMS, h, store.CarrierHold{Left: time.Microsecond, Whole: time.Hour})
	f.Pass(time.Microsecond)
	look(recipient.SMS, h, store.CarrierHold{})
	OK(t, f.HoldBack(t.Context(), recipient.SMS, h, time.Minute))
	look(recipient.SMS, h, store.CarrierHold{Left: time.Minute, Whole: time.Minute})
}
