package auth

import "testing"

func TestRoles(t *testing.T) {
	for deed := range least {
		for role, rank := range ranks {
			if got := (Actor{"x", role}).May(deed); got != (rank >= ranks[least[deed]]) {
				t.Errorf("%s, %s: %v", role, deed, got)
			}
		}
		for _, nobody := range []Actor{{}, {"x", "root"}, {"x", ""}} {
			if nobody.May(deed) {
				t.Errorf("%v may %s", nobody, deed)
			}
		}
	}
	if bootstrap.May("something new") {
		t.Error("what the table does not name is allowed")
	}
}
