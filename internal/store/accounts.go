package store

import (
	"context"
	"regexp"
	"slices"
	"time"
)

// Account is a person who may log in to the console.
type Account struct {
	Name       string    `column:"name,add"`
	Role       string    `column:"role,add"`     // reader, operator or owner
	Password   string    `column:"password,add"` // argon2id, PHC string; empty: none
	Identity   string    `column:"identity,add"` // what the provider calls who logs in by it; empty: no one
	MadeAt     time.Time `column:"made_at,add"`
	DisabledAt time.Time `column:"disabled_at,add"` // zero: may log in
}

// Session is a login that holds, on whatever replica.
type Session struct {
	ID        [32]byte  `column:"id,add"` // SHA-256 of what the cookie holds: who reads the table can't log in by it
	Account   string    `column:"account,add"`
	Bound     [32]byte  `column:"bound,add"`   // names the password, or the provider, of then
	Via       string    `column:"via,add"`     // how they logged in; empty: by password
	Granted   string    `column:"granted,add"` // what the provider said that gave a role to a person without an account
	Passed    bool      `column:"passed,add"`  // began with the second factor of then
	StartedAt time.Time `column:"started_at,add"`
	SeenAt    time.Time `column:"seen_at,add"`
	FactorAt  time.Time `column:"factor_at"` // read alone: when the account's second factor was made; zero: it has none
}

// AccountStore has the administrators, their sessions and their second factors.
type AccountStore interface {
	// AddAccount adds an account that is made now, and writes the act with it. Errors: ErrNameTaken, ErrIdentityTaken.
	AddAccount(ctx context.Context, a Account, act AuditEntry) error
	// ChangeAccount changes what c names of an account, and writes the act with it, whose detail is the role that the account
	// has then. Errors: ErrNotFound, ErrIdentityTaken.
	ChangeAccount(ctx context.Context, name string, c AccountChange, act AuditEntry) error
	// AccountByIdentity finds the account of an identity, or ErrNotFound.
	AccountByIdentity(ctx context.Context, identity string) (Account, error)
	// Account finds one by its name, or ErrNotFound.
	Account(ctx context.Context, name string) (Account, error)
	// Accounts lists them by their names.
	Accounts(ctx context.Context) ([]Account, error)
	// BeginSession writes a session that starts now, and the act of logging in with it. Sessions that started longer than
	// life ago go.
	BeginSession(ctx context.Context, s Session, life time.Duration, act AuditEntry) (Session, error)
	// Session finds one, with the log's clock, or ErrNotFound.
	Session(ctx context.Context, id [32]byte) (Session, time.Time, error)
	// TouchSession says that a session is in use now.
	TouchSession(ctx context.Context, id [32]byte) error
	// EndSession ends one. There may be none.
	EndSession(ctx context.Context, id [32]byte) error
	SecondFactors
}

// Validated validates the session and act, the audit entry that is written with it. It returns act as it is stored; errors wrap
// ErrBadRequest.
func (s Session) Validated(act AuditEntry) (AuditEntry, error) {
	if !ValidTexts(s.Account, s.Via, s.Granted) {
		return act, BadRequestf("a text of a session can't be stored")
	}
	return act.Validated()
}

// AccountChange sets the fields that are not nil. The others stay as they are, also if they are changed at the same time.
type AccountChange struct {
	Role, Password, Identity *string
	DisabledAt               *time.Time // the zero time: may log in again
}

// What an account can't be added or changed for; both are ErrBadRequest too.
var (
	ErrNameTaken     = BadRequestf("there is an account of this name")
	ErrIdentityTaken = BadRequestf("another account has this identity")
)

var (
	accountName = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,31}$`)
	roles       = []string{"reader", "operator", "owner"}
)

// IsAccountName reports whether name can be an account's name: a lower-case letter, then up to 31 of a-z, 0-9, dot, dash and
// underscore.
func IsAccountName(name string) bool { return accountName.MatchString(name) }

// Validated validates the account and act, the audit entry that is written with it. It returns act as it is stored; errors wrap
// ErrBadRequest.
func (a Account) Validated(act AuditEntry) (AuditEntry, error) {
	if !IsAccountName(a.Name) || !slices.Contains(roles, a.Role) || !ValidTexts(a.Password, a.Identity) {
		return act, BadRequestf("an account has a name of small letters and digits, and a role")
	}
	return act.Validated()
}

// Changed returns the account after the change.
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

// Validated validates the account's name, the change and act, the audit entry that is written with it. It returns act as it is
// stored. The error is ErrNotFound if no account can have the name, else it wraps ErrBadRequest.
func (c AccountChange) Validated(name string, act AuditEntry) (AuditEntry, error) {
	if !IsAccountName(name) {
		return act, ErrNotFound
	}
	return Account{Name: name, Role: roles[0]}.Changed(c).Validated(act)
}

// SecondFactor is what an account, also the one of the settings, proves itself with beside its password: a secret that
// codes are made of (RFC 6238).
type SecondFactor struct {
	Account string
	Sealed  []byte // the secret
	Step    int64  // the newest time step whose code was taken
	MadeAt  time.Time
	Codes   int // recovery codes that were not used
}

// SecondFactors is the part of the log that is about them.
type SecondFactors interface {
	// AddSecondFactor gives an account a second factor and recovery codes, of which it keeps these hashes, and writes the act
	// with it; false: it has one, and nothing changes.
	AddSecondFactor(ctx context.Context, f SecondFactor, codes [][32]byte, act AuditEntry) (bool, error)
	// SecondFactor finds an account's, or ErrNotFound.
	SecondFactor(ctx context.Context, account string) (SecondFactor, error)
	// TakeStep takes the code of a time step, once over all replicas: false where it or a later one was taken, or the account
	// has another second factor than the one that was sealed as from. The secret is kept sealed as to from then on.
	TakeStep(ctx context.Context, account string, step int64, from, to []byte) (bool, error)
	// TakeRecoveryCode takes one, once over all replicas, and writes the act with it; false: there is none of that hash.
	TakeRecoveryCode(ctx context.Context, account string, hash [32]byte, act AuditEntry) (bool, error)
	// PutRecoveryCodes has these codes replace all others, and writes the act with it; false: there is no second factor.
	PutRecoveryCodes(ctx context.Context, account string, codes [][32]byte, act AuditEntry) (bool, error)
	// DropSecondFactor takes an account's away, with its recovery codes, and writes the act with it; false: there is none.
	DropSecondFactor(ctx context.Context, account string, act AuditEntry) (bool, error)
}
