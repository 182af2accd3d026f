package outbox

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Each app and each country has an account of its own, and all messages together have one.
// Strangers share these accounts, but may use less of each cap.
func TestBudgetAccountsOfCaps(t *testing.T) {
	b := &Budget{caps: []SpendCap{
		{Name: "all", Scope: quota.Global, Per: quota.Day, Limit: 10, Reserve: 3},
		{Name: "apps", Scope: quota.App, Per: quota.Month, Limit: 20, Reserve: 4},
		{Name: "lands", Scope: policy.CountryScope, Per: quota.Day, Limit: 30},
	}}
	for stranger, limits := range map[bool][3]int64{false: {10, 20, 30}, true: {7, 16, 30}} {
		charges, caps := b.charges(sms.Message{App: "shop", Country: "DE", Stranger: stranger}, 7)
		want := []store.SMSCharge{
			{Cap: "all", Per: quota.Day, Amount: 7, Limit: limits[0]},
			{Cap: "apps app shop", Per: quota.Month, Amount: 7, Limit: limits[1]},
			{Cap: "lands country DE", Per: quota.Day, Amount: 7, Limit: limits[2]},
		}
		if !slices.Equal(charges, want) || caps["apps app shop"] != b.caps[1] || len(caps) != 3 {
			t.Errorf("%+v, %v", charges, caps)
		}
	}
}

// counted is a ledger with the spent amount of each account.
type counted map[string]int64

func (c counted) Spend(_ context.Context, charges []store.SMSCharge) (spent []store.SpentCharge, refusedBy string, err error) {
	for _, x := range charges {
		if c[x.Cap]+x.Amount > x.Limit {
			return nil, x.Cap, nil
		}
	}
	for _, x := range charges {
		c[x.Cap] += x.Amount
		spent = append(spent, store.SpentCharge{SMSCharge: x, Used: c[x.Cap]})
	}
	return spent, "", nil
}

func (counted) UndoSpend(context.Context, []store.SpentCharge) error { return nil }

func (c counted) Spent(_ context.Context, x store.SMSCharge) (int64, error) { return c[x.Cap], nil }

// Strangers hold half as soon as half of a cap's limit without its reserve is spent.
func TestBudgetStrangersHoldHalf(t *testing.T) {
	for used, want := range map[int64]bool{349: false, 350: true} {
		b := NewBudget(counted{"lands country DE": used}, []SpendCap{
			{Name: "day", Scope: quota.Global, Per: quota.Day, Limit: 1000},
			{Name: "lands", Scope: policy.CountryScope, Per: quota.Day, Limit: 1000, Reserve: 300},
		}, slog.New(slog.DiscardHandler), nil)
		if got := b.StrangersHoldHalf(t.Context(), "shop", "DE"); got != want || b.StrangersHoldHalf(t.Context(), "shop", "AT") {
			t.Errorf("%d used: %v", used, got)
		}
	}
}

// silent is a ledger whose reads fail. Each of the first nine calls meanwhile before it returns.
type silent struct {
	counted
	meanwhile func()
	reads     int
}

func (s *silent) Spent(context.Context, store.SMSCharge) (int64, error) {
	if s.reads++; s.reads < 10 {
		s.meanwhile()
	}
	return 0, context.DeadlineExceeded
}

// While the database does not answer, one request a second waits for it, and only for one cap.
func TestBudgetIsReadByOneRequest(t *testing.T) {
	db := &silent{}
	b := NewBudget(db, []SpendCap{{Name: "day", Per: quota.Day, Limit: 1000}, {Name: "month", Per: quota.Month, Limit: 1000}},
		slog.New(slog.DiscardHandler), nil)
	db.meanwhile = func() { b.readSpent(t.Context(), store.SMSCharge{Cap: "day"}) }
	servertest.Bubble(t, func(t *testing.T) {
		for range 3 {
			if b.StrangersHoldHalf(t.Context(), "shop", "DE") {
				t.Error("half is held")
			}
		}
		servertest.Same(t, "reads", db.reads, 1)
		time.Sleep(accountReadFor)
		b.StrangersHoldHalf(t.Context(), "shop", "DE")
		servertest.Same(t, "a second later", db.reads, 2)
	})
}

// The log has one line each when strangers have used their part of a cap, when 80 % of the whole
// cap is used, and when the cap is reached for all.
func TestBudgetLogLines(t *testing.T) {
	var lines strings.Builder
	var stopped []string
	b := NewBudget(counted{}, []SpendCap{{Name: "day", Scope: quota.Global, Per: quota.Day, Limit: 1000, Reserve: 300}},
		slog.New(slog.NewTextHandler(&lines, nil)), func(cap string) { stopped = append(stopped, cap) })
	for _, c := range []struct {
		stranger bool
		cost     int64
		want     string // the lines so far
	}{
		{true, 700, ""},
		{true, 1, "callers=strangers"},
		{true, 1, "callers=strangers"},
		{false, 100, "callers=strangers 80 %"},
		{false, 200, "callers=strangers 80 %"},
		{false, 1, "callers=strangers 80 % callers=all"},
		{false, 1, "callers=strangers 80 % callers=all"},
	} {
		_, _ = b.Reserve(t.Context(), sms.Message{Stranger: c.stranger}, c.cost)
		if got := strings.Join(regexp.MustCompile(`callers=\w+|80 %`).FindAllString(lines.String(), -1), " "); got != c.want {
			t.Errorf("%v %d: %q, want %q", c.stranger, c.cost, got, c.want)
		}
	}
	if len(stopped) != 4 || stopped[0] != "day" {
		t.Errorf("counted as stopped: %v", stopped)
	}
}

// The warning comes at 80 % of a cap, rounded up, also of a cap of a few millionths.
func TestSpendCapWarnsAtFourFifths(t *testing.T) {
	for limit, warns := range map[int64]int64{1: 1, 4: 4, 5: 4, 99: 80, 100: 80, 101: 81, 1_000_000_007: 800_000_006} {
		for used, want := range map[int64]bool{warns - 1: false, warns: true} {
			var lines strings.Builder
			b := NewBudget(counted{}, []SpendCap{{Name: "day", Scope: quota.Global, Per: quota.Day, Limit: limit}},
				slog.New(slog.NewTextHandler(&lines, nil)), nil)
			_, _ = b.Reserve(t.Context(), sms.Message{}, used)
			if warned := strings.Contains(lines.String(), "80 %"); warned != want {
				t.Errorf("%d of %d used: warned %v", used, limit, warned)
			}
		}
	}
}
