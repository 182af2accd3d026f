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
	Identity   string // the login provider's name for this person; empty: can't log in through the provider
	MadeAt     time.Time
	DisabledAt time.Time // zero: may log in
}

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

// Session is one login to the console. It is in the database, so all replicas know it.
type Session struct {
	ID           [32]byte // SHA-256 of the cookie's value, so a copy of the table holds no cookies
	Account      string
	Bound        [32]byte // hash of the account's password or of the login provider, at login; if that changes, the session ends
	Via          string   // login provider; empty: by password
	Granted      string   // the login provider's claim that gave the role; empty: an account gave it
	FactorPassed bool     // whether the second factor was passed at login
	StartedAt    time.Time
	SeenAt       time.Time
	FactorAt     time.Time // MadeAt of the account's second factor, filled on reading; zero: none
}

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

// Validated validates the session and act, the audit entry that is written with it, and returns act
// as the store writes it. Errors wrap ErrBadRequest.
func (s Session) Validated(act AuditEntry) (AuditEntry, error) {
	if !AreValidTexts(s.Account, s.Via, s.Granted) {
		return act, BadRequestf("a text of a session can't be stored")
	}
	return act.Validated()
}

// AccountChange changes the fields that aren't nil, and leaves the others as they are in the
// database, so that two changes of different fields at once both take effect.
type AccountChange struct {
	Role, Password, Identity *string
	DisabledAt               *time.Time // the zero time: may log in again
}

// These errors wrap ErrBadRequest.
var (
	ErrNameTaken     = BadRequestf("an account of this name exists")
	ErrIdentityTaken = BadRequestf("another account has this identity")
)

var (
	accountNamePattern = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,31}$`)
	roles              = []string{"reader", "operator", "owner"}
)

// IsAccountName reports whether name is a lower-case letter and up to 31 of a-z, 0-9, dot, dash and
// underscore.
func IsAccountName(name string) bool { return accountNamePattern.MatchString(name) }

// Validated validates the account and act, the audit entry that is written with it, and returns act
// as the store writes it. Errors wrap ErrBadRequest.
func (a Account) Validated(act AuditEntry) (AuditEntry, error) {
	if !IsAccountName(a.Name) || !slices.Contains(roles, a.Role) || !AreValidTexts(a.Password, a.Identity) {
		return act, BadRequestf("an account has a name of small letters and digits, and a role")
	}
	return act.Validated()
}

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

// Validated validates the change and act, the audit entry that is written with it, and returns act
// as the store writes it, but without a description of the change. Errors: fault.NotFound if no
// account can have the name, others wrap ErrBadRequest.
func (c AccountChange) Validated(name string, act AuditEntry) (AuditEntry, error) {
	if !IsAccountName(name) {
		return act, fault.NotFound
	}
	return Account{Name: name, Role: roles[0]}.WithChange(c).Validated(act)
}

// SecondFactor is the secret of an account's one-time codes (RFC 6238). The account in the
// configuration may have one too.
type SecondFactor struct {
	Account string
	Sealed  []byte // the encrypted secret
	Step    int64  // the newest time step whose code was used
	MadeAt  time.Time
}
