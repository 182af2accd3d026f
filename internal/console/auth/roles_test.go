package auth

import (
	"sendcode/internal/texts"
	"testing"
)

func TestRoles(t *testing.T) {
	for deed := range least {
		for role, rank := range ranks {
			if got := (Actor{"x", role}).May(deed); got != (rank >= ranks[least[deed]]) {
				t.Errorf("%s, %s: %v", role, deed, got)
			}
		}
		for _, unknown := range []Actor{{}, {"x", "root"}, {"x", ""}} {
			if unknown.May(deed) {
				t.Errorf("%v may %s", unknown, deed)
			}
		}
	}
	for _, recorded := range []string{"account.add", "account.role", "account.identity", "account.password", "account.factor", "account.close", "account.open",
		"factor.add", "factor.codes", "factor.remove", "factor.recovery", ActionPassword, ActionLogin, ActionExport} {
		if texts.For("").Get("deed."+recorded) == "" {
			t.Errorf("the audit log has no word for %s", recorded)
		}
	}
	if bootstrap.May("something new") {
		t.Error("what the table does not name is allowed")
	}
}
