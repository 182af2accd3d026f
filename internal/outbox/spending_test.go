package outbox

import (
	"slices"
	"testing"

	"sendcode/internal/sms"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Each app and each country has an account of its own, and all messages have one together.
func TestAccountsOfCaps(t *testing.T) {
	b := &budget{caps: []SpendCap{
		{Name: "all", Scope: quota.Global, Per: quota.Day, Limit: 1}, {Name: "apps", Scope: quota.App, Per: quota.Month, Limit: 2},
		{Name: "lands", Scope: quota.Country, Per: quota.Day, Limit: 3},
	}}
	charges, names := b.charges(sms.Message{App: "shop", Country: "DE"}, 7)
	want := []store.Charge{
		{Account: "all", Per: quota.Day, Amount: 7, Limit: 1}, {Account: "apps app shop", Per: quota.Month, Amount: 7, Limit: 2},
		{Account: "lands country DE", Per: quota.Day, Amount: 7, Limit: 3},
	}
	if !slices.Equal(charges, want) || names["apps app shop"] != "apps" || len(names) != 3 {
		t.Errorf("%+v, %v", charges, names)
	}
}
