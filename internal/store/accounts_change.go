package store

import (
	"regexp"
	"slices"
	"time"
)

// AccountChange names what changes of an account; what is nil stays as it is, whoever changes it at the same time.
type AccountChange struct {
	Role, Password, Identity *string
	DisabledAt               *time.Time // the zero time: may log in again
}

// What an account can't be added or changed for; both are ErrBadRequest too.
var (
	ErrNameTaken     = Bad("there is an account of this name")
	ErrIdentityTaken = Bad("another account has this identity")
)

var (
	accountName = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,31}$`)
	roles       = []string{"reader", "operator", "owner"}
)

// IsAccountName says whether an account may have the name: a small letter, and up to 31 more of a-z, 0-9, dot, dash and underscore.
func IsAccountName(name string) bool { return accountName.MatchString(name) }

func (a Account) Checked(act Act) (Act, error) {
	if !IsAccountName(a.Name) || !slices.Contains(roles, a.Role) || !Storable(a.Password, a.Identity) {
		return act, Bad("an account has a name of small letters and digits, and a role")
	}
	return act.Checked()
}

// Changed is the account with the change.
func (a Account) Changed(c AccountChange) Account {
	if c.Role != nil {
		a.Role = *c.Role
	}
	if c.Password != nil {
		a.Password = *c.Password
	}
	if c.Identity != nil {
		a.Identity = *c.Identity
	}
	if c.DisabledAt != nil {
		a.DisabledAt = Micro(*c.DisabledAt)
	}
	return a
}

// Checked also refuses what no account could become.
func (c AccountChange) Checked(name string, act Act) (Act, error) {
	if !IsAccountName(name) {
		return act, ErrNotFound
	}
	return Account{Name: name, Role: roles[0]}.Changed(c).Checked(act)
}
