package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/quota"
)

// prefixWatch judges by few sends, to keep these tests short.
var prefixWatch = store.PrefixWatch{MinSends: 10, MinApprovedPercent: 10, TTL: 10 * time.Minute}

// text makes an intent a text message to a number with this prefix.
func text(prefix, country string) func(*store.Intent) {
	return func(in *store.Intent) {
		in.Send.Channel, in.Send.Prefix, in.Send.Country = recipient.SMS, prefix, country
	}
}

func inApp(app string) func(*store.Intent) { return func(in *store.Intent) { in.Send.App = app } }

// sendTexts sends n text messages, and approves the codes of the first ones.
func (f *Fixture) sendTexts(t *testing.T, n, approved int, changes ...func(*store.Intent)) {
	t.Helper()
	begun := f.admitAll(t, n, func(i int) store.Intent { return f.Intent(i, changes...) })
	f.endAll(t, begun, func(int) store.Outcome {
		return store.Outcome{Status: store.Sent, Provider: "carrier", ProviderCode: "202"}
	})
	for _, b := range begun[:approved] {
		f.approve(t, b.Verification.ID)
	}
}

// pausesOne lets the watch pause one prefix: it sends ten messages to the prefix, and no code is
// entered.
func (f *Fixture) pausesOne(t *testing.T, prefix string) store.PrefixPause {
	t.Helper()
	f.sendTexts(t, 10, 0, text(prefix, "DE"))
	f.Pass(10 * time.Minute)
	return f.onePause(t, prefixWatch)
}

func (f *Fixture) onePause(t *testing.T, w store.PrefixWatch) store.PrefixPause {
	t.Helper()
	started := f.pausePrefixes(t, w)
	Equal(t, "started", len(started), 1)
	return started[0]
}

// pausePrefixes returns the prefixes that a watch pauses, without the IDs.
func (f *Fixture) pausePrefixes(t *testing.T, w store.PrefixWatch) []store.PrefixPause {
	t.Helper()
	started := Must(f.PausePrefixes(t.Context(), w))(t)
	for i := range started {
		started[i].ID = uuid.Nil
	}
	return started
}

func (f *Fixture) prefixPaused(t *testing.T, app, prefix string, want bool) store.PrefixPause {
	t.Helper()
	p, found := must2(f.Replica.PrefixPaused(t.Context(), app, prefix, store.SecretKeyClass))(t)
	Equal(t, app+" "+prefix+" is paused", found, want)
	return p
}

// watchPauses checks that a prefix is paused once, for one hour, if too few of its codes are
// entered, unless few are entered at other prefixes too.
func watchPauses(t *testing.T, f *Fixture) {
	f.sendTexts(t, 10, 6, text("+86139", "CN")) // the usual percentage in all countries
	f.Pass(2 * time.Hour)
	f.sendTexts(t, 10, 0, text("+49151", "DE"))
	f.sendTexts(t, 9, 0, text("+49152", "DE"))                // too few
	f.sendTexts(t, 10, 1, text("+49153", "DE"))               // a tenth is not less than a tenth
	f.sendTexts(t, 11, 1, text("+49154", "DE"))               // less than a tenth
	f.sendTexts(t, 10, 5, text("+49155", "DE"))               // the usual percentage
	f.sendTexts(t, 10, 0, text("+49151", "DE"), inApp("gym")) // another app, which has no usual percentage
	f.sendTexts(t, 30, 0)                                     // mails
	f.Pass(10*time.Minute - time.Microsecond)
	Equal(t, "while they may come back", f.pausePrefixes(t, prefixWatch), nil)
	f.Pass(time.Microsecond)
	a := store.PrefixPause{
		App: "shop", Country: "DE", Prefix: "+49154", Since: f.Now, Until: f.Now.Add(time.Hour), Sends: 11, Approved: 1,
		UsualPercent: 60,
	}
	b, c := a, a
	b.App, b.Prefix, b.Sends, b.Approved, b.UsualPercent = "gym", "+49151", 10, 0, store.UnknownUsualPercent
	c.Prefix, c.Sends, c.Approved = "+49151", 10, 0
	Equal(t, "paused", f.pausePrefixes(t, prefixWatch), []store.PrefixPause{a, b, c})
	Equal(t, "again", f.pausePrefixes(t, prefixWatch), nil)

	got := f.prefixPaused(t, "shop", "+49151", true)
	c.ID = got.ID
	Equal(t, "pause", got, c)
	for _, other := range [][2]string{{"shop", "+49152"}, {"shop", "+4915"}, {"gym", "+49154"}, {"", "+49151"}} {
		f.prefixPaused(t, other[0], other[1], false)
	}
	f.Pass(time.Hour - time.Microsecond)
	f.prefixPaused(t, "shop", "+49151", true)
	f.Pass(time.Microsecond)
	f.prefixPaused(t, "shop", "+49151", false)
}

// watchJudgesByClass checks that each class has its own figures and pauses: fraud by strangers
// pauses only strangers, and for twice as long the second time.
func watchJudgesByClass(t *testing.T, f *Fixture) {
	paused := func(classes ...store.Class) {
		t.Helper()
		for _, class := range store.Classes {
			_, found := must2(f.Replica.PrefixPaused(t.Context(), "shop", "+49151", class))(t)
			Equal(t, class.Name()+" is paused", found, slices.Contains(classes, class))
		}
	}
	f.sendTexts(t, 10, 9, text("+86139", "CN"), byBrowser) // the usual percentage of strangers
	f.sendTexts(t, 10, 6, text("+86139", "CN"))
	f.Pass(2 * time.Hour)
	for _, class := range []store.Class{store.SecretKeyClass, store.KnownBrowser} {
		f.sendTexts(t, 9, 0, text("+49151", "DE"), ofClass(class)) // too few of each class, but enough together
	}
	f.sendTexts(t, 20, 1, text("+49151", "DE"), byBrowser)
	f.Pass(10 * time.Minute)
	started := f.onePause(t, prefixWatch)
	Equal(t, "paused", []any{started.Class, started.Sends, started.Approved, started.UsualPercent}, []any{store.StrangerClass, 20, 1, 90})
	paused(store.StrangerClass)

	f.sendTexts(t, 1, 0, text("+49151", "DE")) // the tenth message of a secret key
	f.Pass(10 * time.Minute)
	started = f.onePause(t, prefixWatch)
	Equal(t, "paused", []any{started.Class, started.Sends, started.UsualPercent}, []any{store.SecretKeyClass, 10, 60})
	paused(store.StrangerClass, store.SecretKeyClass)
	f.Pass(time.Hour)
	f.sendTexts(t, 10, 0, text("+49151", "DE"), byKnown)
	f.sendTexts(t, 10, 0, text("+49151", "DE"), byBrowser)
	f.Pass(10 * time.Minute)
	lasts := map[store.Class]time.Duration{}
	for _, p := range f.pausePrefixes(t, prefixWatch) {
		lasts[p.Class] = p.Until.Sub(p.Since)
	}
	Equal(t, "last", lasts, map[store.Class]time.Duration{store.KnownBrowser: time.Hour, store.StrangerClass: 2 * time.Hour})
	list, _ := must2(f.PrefixPauses(t.Context(), store.PrefixPauseFilter{Active: true, Limit: 9}))(t)
	for _, p := range list {
		if p.Class == store.KnownBrowser {
			must2(f.LiftPrefixPause(t.Context(), store.LiftPauseRequest{ID: p.ID, By: "mei", Why: "ours"}, nil))(t)
		}
	}
	paused(store.StrangerClass)
}

// watchNamesApps checks that a watch judges the apps that it names, or all other apps.
func watchNamesApps(t *testing.T, f *Fixture) {
	for _, app := range []string{"shop", "gym", "bank"} {
		f.sendTexts(t, 10, 0, text("+49151", "DE"), inApp(app))
	}
	f.Pass(10 * time.Minute)
	own, others := prefixWatch, prefixWatch
	own.Apps, own.Only, own.MinSends = []string{"gym", "spa"}, true, 11
	others.Apps = []string{"gym", "bank"}
	Equal(t, "by its own number of messages", f.pausePrefixes(t, own), nil)
	Equal(t, "of the others", f.onePause(t, others).App, "shop")
	own.MinSends = 10
	Equal(t, "of its own", f.onePause(t, own).App, "gym")
	f.prefixPaused(t, "bank", "+49151", false)
}

// watchCounts checks that only messages that a carrier took or may have taken count. Failed
// messages and messages to test recipients or exempt prefixes do not count.
func watchCounts(t *testing.T, f *Fixture) {
	for i, o := range []store.Outcome{
		{Status: store.Failed, Provider: "carrier"},
		{Status: store.Sent, Provider: "test"},
		{Status: store.Unknown, Provider: "carrier"},
		{Status: store.Sent, Provider: "carrier"},
	} {
		for range 5 {
			id := f.Ended(t, f.Intent(i, text("+49151", "DE")), o).Send.ID
			if i == 3 {
				Must(f.RecordReceipt(t.Context(), id, store.Undelivered))(t)
			}
		}
	}
	f.Admit(t, f.Intent(9, text("+49151", "DE"))) // on its way
	f.sendTexts(t, 10, 0, text("+49160", "XX"))
	f.sendTexts(t, 10, 0, text("+86138", "XX"))
	f.Pass(30 * time.Minute)
	w := prefixWatch
	w.Exempt = []string{"+86", "+49160", "+491511"}
	short := w
	short.TTL = 30*time.Minute + time.Microsecond
	Equal(t, "before a code's life has passed", f.pausePrefixes(t, short), nil)
	started := f.onePause(t, w)
	Equal(t, "sends", []any{started.Prefix, started.Sends}, []any{"+49151", 10})
}

// watchLeavesCallersCodesOut checks codes that their callers check without reports: they pause no
// prefix, and do not lower the usual percentage.
func watchLeavesCallersCodesOut(t *testing.T, f *Fixture) {
	f.sendTexts(t, 10, 6, text("+86139", "CN"))
	f.sendTexts(t, 90, 0, text("+86139", "CN"), withCode("sealed"))
	f.Pass(2 * time.Hour)
	f.sendTexts(t, 30, 0, text("+49151", "DE"), withCode("sealed"))
	f.Pass(10 * time.Minute)
	Equal(t, "started", f.pausePrefixes(t, prefixWatch), nil)
	p := f.pausesOne(t, "+49151")
	Equal(t, "sends, usual", []int{p.Sends, p.UsualPercent}, []int{10, 60})
}

// watchKnowsWhatIsUsual checks that no prefix is paused where few codes are entered anywhere. Only
// older sends count in the usual percentage, so that an attack on a whole country does not lower
// it.
func watchKnowsWhatIsUsual(t *testing.T, f *Fixture) {
	f.sendTexts(t, 20, 3, text("+86139", "CN"), inApp("notices"))
	f.sendTexts(t, 20, 4, text("+86139", "CN"))
	f.sendTexts(t, 20, 0, text("+49170", "DE"))
	f.Pass(3 * time.Hour)
	f.sendTexts(t, 10, 0, text("+86138", "CN"), inApp("notices")) // usual: 15 % of the codes are entered
	f.sendTexts(t, 10, 0, text("+86138", "CN"))                   // usual: 20 % in the country, 10 % in all countries
	for n := range 5 {
		f.sendTexts(t, 10, 0, text(fmt.Sprint("+4916", n), "DE")) // usual: 0 % in the country, 10 % in all countries
	}
	f.Pass(10 * time.Minute)
	started := f.onePause(t, prefixWatch)
	Equal(t, "paused", []any{started.App, started.Prefix, started.UsualPercent}, []any{"shop", "+86138", 20})
	f.sendTexts(t, 60, 60, text("+33601", "FR")) // too late to count in the usual percentage
	Equal(t, "started", f.pausePrefixes(t, prefixWatch), nil)
	f.Pass(3 * time.Hour)
	for n := range 5 {
		f.sendTexts(t, 10, 0, text(fmt.Sprint("+4916", n), "DE"))
	}
	f.Pass(10 * time.Minute)
	Equal(t, "a country attacked at once", len(f.pausePrefixes(t, prefixWatch)), 5)
	f.Pass(8 * 24 * time.Hour)
	f.sendTexts(t, 10, 0, text("+86137", "CN"), inApp("notices"))
	f.Pass(10 * time.Minute)
	Equal(t, "usual, after a week", f.onePause(t, prefixWatch).UsualPercent, store.UnknownUsualPercent)
}

// watchGrowsStricter checks that each further pause of a prefix lasts twice as long, up to a day,
// and counts only newer sends. After a week without a pause, the next lasts an hour again.
func watchGrowsStricter(t *testing.T, f *Fixture) {
	lasts := func(want time.Duration) {
		t.Helper()
		started := f.pausesOne(t, "+49151")
		Equal(t, "lasts", started.Until.Sub(started.Since), want)
	}
	for _, hours := range []time.Duration{1, 2, 4, 8, 16, 24, 24} {
		lasts(hours * time.Hour)
		f.sendTexts(t, 20, 0, text("+49151", "DE")) // during the pause
		f.Pass(hours*time.Hour + time.Microsecond)
		Equal(t, "of what was sent before its end", f.pausePrefixes(t, prefixWatch), nil)
	}
	f.Pass(8 * 24 * time.Hour)
	lasts(time.Hour)
}

func watchLifted(t *testing.T, f *Fixture) {
	f.pausesOne(t, "+49151")
	p := f.prefixPaused(t, "shop", "+49151", true)
	act := &store.AuditEntry{
		ID: uuid.UUID{1, 6: 0x70, 8: 0x80}, Who: "mei", Role: "operator", What: "prefix.lift", Reason: "ours",
		Outcome: store.AuditDone,
	}
	Is(t, err2(f.LiftPrefixPause(t.Context(), store.LiftPauseRequest{ID: uuid.UUID{9}}, act)), fault.NotFound)
	f.Pass(time.Minute)
	p.LiftedAt, p.LiftedBy, p.LiftedWhy = f.Now, "mei\uFFFD", "ours"
	for n, by := range []string{"mei\x00", "another"} {
		act.ID[1] = byte(n)
		got, done := must2(f.LiftPrefixPause(t.Context(), store.LiftPauseRequest{ID: p.ID, By: by, Why: "ours"}, act))(t)
		Equal(t, "lifted", done, n == 0)
		Equal(t, "pause", got, p)
	}
	f.prefixPaused(t, "shop", "+49151", false)
	acts := f.ListActs(t, store.AuditFilter{})
	Equal(t, "acts", len(acts), 1)
	Equal(t, "act", []any{acts[0].Target, acts[0].App, acts[0].Channel}, []any{"+49151", "shop", recipient.SMS})

	// Sends before the lifting do not count again, nor do sends in the same microsecond. Ten new
	// sends do count, and the new pause is not longer.
	for _, n := range []int{9, 1} {
		f.sendTexts(t, n, 0, text("+49151", "DE"))
		f.Pass(10 * time.Minute)
		Equal(t, "started", f.pausePrefixes(t, prefixWatch), nil)
	}
	f.sendTexts(t, 9, 0, text("+49151", "DE"))
	f.Pass(10 * time.Minute)
	again := f.onePause(t, prefixWatch)
	Equal(t, "sends, and not twice as long", []any{again.Sends, again.Until.Sub(again.Since)}, []any{10, time.Hour})
}

// watchedAtOnce checks that replicas which watch at once pause a prefix once.
func watchedAtOnce(t *testing.T, f *Fixture) {
	for n := range 3 {
		f.sendTexts(t, 10, 0, text(fmt.Sprint("+4915", n), "DE"))
	}
	f.Pass(10 * time.Minute)
	var n atomic.Int32
	f.atOnce(t, 8, func(db *sqldb.DB, _ int) (bool, error) {
		started, err := db.PausePrefixes(t.Context(), prefixWatch)
		n.Add(int32(len(started)))
		return true, err
	})
	list, _ := must2(f.PrefixPauses(t.Context(), store.PrefixPauseFilter{Limit: 10}))(t)
	Equal(t, "started, there", []int{int(n.Load()), len(list)}, []int{3, 3})
	next := store.PrefixPauseFilter{Active: true, Before: &store.Cursor{At: list[0].Since, ID: list[0].ID}, Limit: 1}
	page, now := must2(f.PrefixPauses(t.Context(), next))(t)
	Equal(t, "second page", page, list[1:2])
	Equal(t, "now", now, f.Now)
	f.Pass(time.Hour)
	page, _ = must2(f.PrefixPauses(t.Context(), next))(t)
	Equal(t, "run out", len(page), 0)
}

// storyNamesThePause checks that a stopped send names its pause, even after the pause has ended,
// and that no other send names one.
func storyNamesThePause(t *testing.T, f *Fixture) {
	f.pausesOne(t, "+49151")
	p := f.prefixPaused(t, "shop", "+49151", true)
	end := func(reason string, changes ...func(*store.Intent)) uuid.UUID {
		return f.Ended(t, f.Intent(50, changes...), store.Outcome{Status: store.Failed, Reason: reason, Refund: true}).Send.ID
	}
	stopped := end(store.ReasonPaused, text("+49151", "DE"))
	others := []uuid.UUID{
		end(store.ReasonPaused), end(store.ReasonPaused, text("+49152", "DE")),
		end(store.ReasonPaused, text("+49151", "DE"), inApp("gym")), end(store.ReasonRejected, text("+49151", "DE")),
		end(store.ReasonPaused, text("+49151", "DE"), byKnown),
	}
	f.Pass(2 * time.Hour)
	others = append(others, end(store.ReasonPaused, text("+49151", "DE")))
	Equal(t, "pause", Must(f.SendDetails(t.Context(), stopped))(t).Pause, &p)
	for _, id := range others {
		Equal(t, "pause of another", Must(f.SendDetails(t.Context(), id))(t).Pause, nil)
	}
}

func leaseOfOneReplica(t *testing.T, f *Fixture) {
	take := func(i int, name string) bool {
		return Must(f.Both(i).AcquireJobLease(t.Context(), name, time.Minute))(t)
	}
	Equal(t, "turns", f.atOnce(t, 8, func(db *sqldb.DB, _ int) (bool, error) {
		return db.AcquireJobLease(t.Context(), "work", time.Minute)
	}), 1)
	Equal(t, "another work", take(0, "other"), true)
	f.Pass(time.Minute - time.Microsecond)
	Equal(t, "before its end", take(1, "work"), false)
	f.Pass(time.Microsecond)
	Equal(t, "at its end", take(1, "work"), true)
	Equal(t, "for the other", take(0, "work"), false)
	f.Pass(-24 * time.Hour) // the clock was ahead
	Equal(t, "after the clock was set back", take(0, "work"), true)
}

func charge(account string, amount, limit int64) store.SMSCharge {
	return store.SMSCharge{Cap: account, Per: quota.Day, Amount: amount, Limit: limit}
}

// spend makes the charges together. by is the Cap that must refuse them; "": none.
func (f *Fixture) spend(t *testing.T, by string, charges ...store.SMSCharge) []store.SpentCharge {
	t.Helper()
	spent, refusedBy := must2(f.Spend(t.Context(), charges))(t)
	Equal(t, "refused by", refusedBy, by)
	if by != "" {
		charges = nil
	}
	Equal(t, "charges made", len(spent), len(charges))
	return spent
}

func spendTogether(t *testing.T, f *Fixture) {
	spent := f.spend(t, "", charge("b", 40, 100), charge("a", 60, 100))
	Equal(t, "first", spent, []store.SpentCharge{
		{SMSCharge: charge("a", 60, 100), Period: "2030-03-01", Used: 60},
		{SMSCharge: charge("b", 40, 100), Period: "2030-03-01", Used: 40},
	})
	f.spend(t, "b", charge("a", 40, 100), charge("b", 61, 100))
	spent = f.spend(t, "", charge("a", 40, 100)) // to the last millionth: the refusal had spent nothing
	Equal(t, "used", spent[0].Used, int64(100))
	for of, want := range map[string]int64{"a": 100, "nobody": 0} {
		read, err := f.Spent(t.Context(), charge(of, 0, 100))
		OK(t, err)
		Equal(t, "read of "+of, read, want)
	}
	f.spend(t, "a", charge("a", 1, 100))
	f.spend(t, "", charge("a", 0, 100))
	f.spend(t, "new", charge("new", 101, 100))
	OK(t, f.UndoSpend(t.Context(), spent))
	spent = f.spend(t, "", charge("a", 40, 100))
	Equal(t, "used again", spent[0].Used, int64(100))
	OK(t, f.UndoSpend(t.Context(), append(spent, spent...)))
	OK(t, f.UndoSpend(t.Context(), spent)) // the sum never falls below 0
	Equal(t, "used at last", f.spend(t, "", charge("a", 100, 100))[0].Used, int64(100))
}

func spendPeriods(t *testing.T, f *Fixture) {
	month := store.SMSCharge{Cap: "month", Per: quota.Month, Amount: 10, Limit: 10}
	first := f.spend(t, "", charge("day", 10, 10), month)
	f.Pass(12*time.Hour - 123457*time.Microsecond - time.Microsecond) // the last microsecond of the day
	f.spend(t, "day", charge("day", 1, 10))
	f.Pass(time.Microsecond)
	Equal(t, "after midnight", f.spend(t, "", charge("day", 10, 10))[0].Period, "2030-03-02")
	f.spend(t, "month", month)
	OK(t, f.UndoSpend(t.Context(), first)) // the undone charge lowers the sums of yesterday and of this month
	f.spend(t, "day", charge("day", 1, 10))
	f.spend(t, "", month)
	f.Pass(30 * 24 * time.Hour)
	Equal(t, "next month", f.spend(t, "", month)[0].Period, "2030-04-01")
}

// spendInParallel makes many charges at once, over two replicas, for two caps each. Exactly as many
// are made as fit.
func spendInParallel(t *testing.T, f *Fixture) {
	Equal(t, "let in", f.atOnce(t, 60, func(db *sqldb.DB, n int) (bool, error) {
		spent, _, err := db.Spend(t.Context(), []store.SMSCharge{charge("all", 7, 100), charge([]string{"app-a", "app-b"}[n/2%2], 7, 63)})
		return len(spent) > 0, err
	}), 14)
	Equal(t, "used", f.spend(t, "", charge("all", 0, 100))[0].Used, int64(98))
}

// carrierHolds checks that a hold applies to one recipient on one channel, and lasts for its time,
// even if a shorter hold is added. The row is deleted after the hold's end, even if rows are kept
// for ever.
func carrierHolds(t *testing.T, f *Fixture) {
	h := recipient.Hash{15: 9}
	look := func(ch recipient.Channel, h recipient.Hash, want store.CarrierHold) {
		t.Helper()
		Equal(t, "hold", Must(f.Replica.CarrierHold(t.Context(), ch, h))(t), want)
	}
	OK(t, f.AddCarrierHold(t.Context(), recipient.SMS, h, time.Hour))
	look(recipient.Email, h, store.CarrierHold{})
	look(recipient.SMS, recipient.Hash{15: 8}, store.CarrierHold{})
	f.Pass(20 * time.Minute)
	OK(t, f.AddCarrierHold(t.Context(), recipient.SMS, h, time.Minute))
	Must(f.DeleteAged(t.Context(), 0, 10))(t)
	look(recipient.SMS, h, store.CarrierHold{Left: 40 * time.Minute, Whole: time.Hour})
	f.Pass(40 * time.Minute)
	look(recipient.SMS, h, store.CarrierHold{})
	Must(f.DeleteAged(t.Context(), 0, 10))(t)
	f.Pass(-time.Minute)
	look(recipient.SMS, h, store.CarrierHold{})
}
