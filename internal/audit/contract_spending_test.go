package audit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

func charge(account string, amount, limit int64) Charge {
	return Charge{Account: account, Per: quota.Day, Amount: amount, Limit: limit}
}

// spend makes charges and says by whom they were refused.
func (f *fixture) spend(t *testing.T, charges ...Charge) ([]Spent, string) {
	t.Helper()
	spent, refusedBy, err := f.Spend(t.Context(), charges)
	ok(t, err)
	if (len(spent) == len(charges)) != (refusedBy == "") || refusedBy != "" && len(spent) != 0 {
		t.Fatalf("%d of %d charges, refused by %q", len(spent), len(charges), refusedBy)
	}
	return spent, refusedBy
}

func spendTogether(t *testing.T, f *fixture) {
	spent, _ := f.spend(t, charge("b", 40, 100), charge("a", 60, 100))
	equal(t, "first", spent, []Spent{{charge("a", 60, 100), "2030-03-01", 60}, {charge("b", 40, 100), "2030-03-01", 40}})
	_, by := f.spend(t, charge("a", 40, 100), charge("b", 61, 100))
	equal(t, "refused by", by, "b")
	spent, _ = f.spend(t, charge("a", 40, 100)) // to the last millionth: the refusal had spent nothing
	equal(t, "used", spent[0].Used, int64(100))
	_, by = f.spend(t, charge("a", 1, 100))
	equal(t, "refused by", by, "a")
	f.spend(t, charge("a", 0, 100))
	_, by = f.spend(t, charge("new", 101, 100))
	equal(t, "refused by", by, "new")
	ok(t, f.Unspend(t.Context(), spent))
	spent, _ = f.spend(t, charge("a", 40, 100))
	equal(t, "used again", spent[0].Used, int64(100))
	ok(t, f.Unspend(t.Context(), append(spent, spent...)))
	ok(t, f.Unspend(t.Context(), spent)) // never below nothing
	spent, _ = f.spend(t, charge("a", 100, 100))
	equal(t, "used at last", spent[0].Used, int64(100))
}

func spendPeriods(t *testing.T, f *fixture) {
	month := Charge{Account: "month", Per: quota.Month, Amount: 10, Limit: 10}
	first, _ := f.spend(t, charge("day", 10, 10), month)
	f.pass(12*time.Hour - 123457*time.Microsecond - time.Microsecond) // the last microsecond of the day
	_, by := f.spend(t, charge("day", 1, 10))
	equal(t, "before midnight", by, "day")
	f.pass(time.Microsecond)
	spent, _ := f.spend(t, charge("day", 10, 10))
	equal(t, "after midnight", spent[0].Period, "2030-03-02")
	_, by = f.spend(t, month)
	equal(t, "in the same month", by, "month")
	ok(t, f.Unspend(t.Context(), first)) // what came back belongs to yesterday, and to this month
	_, by = f.spend(t, charge("day", 1, 10))
	equal(t, "still spent", by, "day")
	f.spend(t, month)
	f.pass(30 * 24 * time.Hour)
	spent, _ = f.spend(t, month)
	equal(t, "next month", spent[0].Period, "2030-04-01")
}

// Many at once, over two replicas and two accounts each: exactly as many as fit.
func spendInParallel(t *testing.T, f *fixture) {
	var in atomic.Int32
	var wg sync.WaitGroup
	for n := range 60 {
		log := []Store{f.Store, f.replica}[n%2]
		wg.Go(func() {
			charges := []Charge{charge("all", 7, 100), charge([]string{"app-a", "app-b"}[n/2%2], 7, 63)}
			spent, _, err := log.Spend(t.Context(), charges)
			if err != nil {
				t.Errorf("Spend: %v", err)
			}
			if len(spent) > 0 {
				in.Add(1)
			}
		})
	}
	wg.Wait()
	equal(t, "let in", in.Load(), int32(14))
	spent, _ := f.spend(t, charge("all", 0, 100))
	equal(t, "used", spent[0].Used, int64(98))
}

func badCharges(t *testing.T, f *fixture) {
	for _, charges := range [][]Charge{
		{charge("", 1, 1)}, {charge("a", -1, 1)}, {charge("a", 1, -1)}, {charge("a", 1, 1), charge("a", 1, 1)},
		{{Account: "a", Per: quota.Week, Amount: 1, Limit: 1}}, {{Account: "a", Amount: 1, Limit: 1}},
	} {
		_, _, err := f.Spend(t.Context(), charges)
		is(t, err, ErrBadRequest)
	}
	is(t, f.Embargo(t.Context(), recipient.SMS, recipient.Hash{1}, 0), ErrBadRequest)
	is(t, f.Embargo(t.Context(), recipient.SMS, recipient.Hash{1}, 32*24*time.Hour), ErrBadRequest)
}

func embargoes(t *testing.T, f *fixture) {
	h := recipient.Hash{15: 9}
	look := func(ch recipient.Channel, h recipient.Hash, want Embargo) {
		t.Helper()
		got, err := f.replica.Embargoed(t.Context(), ch, h)
		ok(t, err)
		equal(t, "embargo", got, want)
	}
	look(recipient.SMS, h, Embargo{})
	ok(t, f.Embargo(t.Context(), recipient.SMS, h, time.Hour))
	look(recipient.SMS, h, Embargo{time.Hour, time.Hour})
	look(recipient.Email, h, Embargo{})
	look(recipient.SMS, recipient.Hash{15: 8}, Embargo{})
	f.pass(20 * time.Minute)
	ok(t, f.Embargo(t.Context(), recipient.SMS, h, time.Minute)) // shorter: the longer one stays
	look(recipient.SMS, h, Embargo{40 * time.Minute, time.Hour})
	f.pass(40*time.Minute - time.Microsecond)
	look(recipient.SMS, h, Embargo{time.Microsecond, time.Hour})
	f.pass(time.Microsecond)
	look(recipient.SMS, h, Embargo{})
	ok(t, f.Embargo(t.Context(), recipient.SMS, h, time.Minute))
	look(recipient.SMS, h, Embargo{time.Minute, time.Minute})
}
