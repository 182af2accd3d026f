package store

import (
	"regexp"
	"slices"
	"time"

	"sendcode/internal/base/fault"
)

// Account is a person who may log in to the console.
type Account struct {
	Name       string
	Role       string // reader, operator or owner
	Password   string // argon2id, PHC string; empty: none
	Identity   string // the login provider's name for this person; empty: no login by a provider
	MadeAt     time.Time
	DisabledAt time.Time // zero: may log in
}

// Columns returns the columns of the row.
func (a *Account) Columns() []Column {
	return []Column{
		{"name", &a.Name, InsertedColumn},
		{"role", &a.Role, InsertedColumn},
		{"password", &a.Password, InsertedColumn},
		{"identity", &a.Identity, InsertedColumn},
		{"created_at", &a.MadeAt, InsertedColumn},
		{"disabled_at", &a.DisabledAt, InsertedColumn},
	}
}

// Session is one login. All replicas share it.
type Session struct {
	ID           [32]byte // SHA-256 of the cookie's value; the cookie can't be derived from a copy of the table
	Account      string
	Bound        [32]byte // hash of the account's password or of the login provider, at login; if the hash changes, the session ends
	Via          string   // the login provider; empty: by password
	Granted      string   // the claim of the login provider that gave the role; empty: the role comes from an account
	FactorPassed bool     // the second factor was checked at login
	StartedAt    time.Time
	SeenAt       time.Time
	FactorAt     time.Time // MadeAt of the account's second factor; the store fills it when it reads a session; zero: no second factor
}

// Columns returns the columns of the row.
func (s *Session) Columns() []Column {
	return []Column{
		{"id", &s.ID, InsertedColumn},
		{"account", &s.Account, InsertedColumn},
		{"bound", &s.Bound, InsertedColumn},
		{"via", &s.Via, InsertedColumn},
		{"granted", &s.Granted, InsertedColumn},
		{"passed", &s.FactorPassed, InsertedColumn},
		{"started_at", &s.StartedAt, InsertedColumn},
		{"seen_at", &s.SeenAt, InsertedColumn},
		{"factor_at", &s.FactorAt, 0},
	}
}

// Validated validates the session, and the audit entry in act, which is written with the session.
// It returns this entry in the form that the store writes. Errors wrap ErrBadRequest.
func (s Session) Validated(act AuditEntry) (AuditEntry, error) {
	if !AreValidTexts(s.Account, s.Via, s.Granted) {
		return act, BadRequestf("a text of a session can't be stored")
	}
	return act.Validated()
}

// AccountChange changes the fields that are not nil. The database keeps the values of the other
// fields. So if two requests change different fields at the same time, both changes take effect.
type AccountChange struct {
	Role, Password, Identity *string
	DisabledAt               *time.Time // the zero time: may log in again
}

// Errors of adding or changing an account. Both wrap ErrBadRequest.
var (
	ErrNameTaken     = BadRequestf("an account of this name exists")
	ErrIdentityTaken = BadRequestf("another account has this identity")
)

var (
	accountNamePattern = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,31}$`)
	roles              = []string{"reader", "operator", "owner"}
)

// IsAccountName reports whether name can be an account's name: a lower-case letter, then up to 31
// of a-z, 0-9, dot, dash and underscore.
func IsAccountName(name string) bool { return accountNamePattern.MatchString(name) }

// Validated validates the account, and the audit entry in act, which is written with the account.
// It returns this entry in the form that the store writes. Errors wrap ErrBadRequest.
func (a Account) Validated(act AuditEntry) (AuditEntry, error) {
	if !IsAccountName(a.Name) || !slices.Contains(roles, a.Role) || !AreValidTexts(a.Password, a.Identity) {
		return act, BadRequestf("an account has a name of small letters and digits, and a role")
	}
	return act.Validated()
}

// WithChange returns the account after the change.
func (a Account) WithChange(c AccountChange) Account {
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
		a.DisabledAt = TruncateToMicroseconds(*c.DisabledAt)
	}
	return a
}

// Validated validates the account's name, the change, and the audit entry in act, which is written
// with the change. It returns this entry in the form that the store writes, but without a
// description of the change. If no account can have the name, the error is fault.NotFound.
// Otherwise the error wraps ErrBadRequest.
func (c AccountChange) Validated(name string, act AuditEntry) (AuditEntry, error) {
	if !IsAccountName(name) {
		return act, fault.NotFound
	}
	return Account{Name: name, Role: roles[0]}.WithChange(c).Validated(act)
}

// SecondFactor is the secret of an account's one-time codes (RFC 6238). The account in the
// configuration can have a second factor, too.
type SecondFactor struct {
	Account string
	Sealed  []byte // the secret, encrypted
	Step    int64  // the newest time step with a used code
	MadeAt  time.Time
}
