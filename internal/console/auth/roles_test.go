package auth

import "testing"

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
	if bootstrap.May("something new") {
		t.Error("what the table does not name is allowed")
	}
}
