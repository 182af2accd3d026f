package store

import (
	"context"
	"regexp"
	"slices"
	"time"

	"sendcode/internal/fault"
)

// Account is a person who may log in to the console.
type Account struct {
	Name       string    `column:"name,add"`
	Role       string    `column:"role,add"`     // reader, operator or owner
	Password   string    `column:"password,add"` // argon2id, PHC string; empty: none
	Identity   string    `column:"identity,add"` // the login provider's name for this person; empty: no login by a provider
	MadeAt     time.Time `column:"created_at,add"`
	DisabledAt time.Time `column:"disabled_at,add"` // zero: may log in
}

// Session is one login. All replicas share it.
type Session struct {
	ID        [32]byte  `column:"id,add"` // SHA-256 of the cookie's value, so that nobody can log in with a copy of the table
	Account   string    `column:"account,add"`
	Bound     [32]byte  `column:"bound,add"`   // hash of the password or of the provider at login; if either changes, the session ends
	Via       string    `column:"via,add"`     // the login provider; empty: by password
	Granted   string    `column:"granted,add"` // for a person without an account: the provider's claim that gave the role
	Passed    bool      `column:"passed,add"`  // the second factor was checked at login
	Network   string    `column:"network,add"` // the /24 or /48 of the login; empty: unknown
	Browser   string    `column:"browser,add"` // browser and system, such as Firefox/Linux; empty: unknown
	StartedAt time.Time `column:"started_at,add"`
	SeenAt    time.Time `column:"seen_at,add"`
	FactorAt  time.Time `column:"factor_at"` // MadeAt of the account's second factor; zero: it has none. Only read
}

// AccountStore has the administrators, their sessions and their second factors.
type AccountStore interface {
	// AddAccount adds an account and its audit entry. It sets MadeAt. Errors: ErrNameTaken, ErrIdentityTaken.
	AddAccount(ctx context.Context, a Account, act AuditEntry) error
	// ChangeAccount sets the fields of c in the account and adds the audit entry. The entry's Detail becomes the account's role after
	// the change. Errors: fault.NotFound, ErrIdentityTaken.
	ChangeAccount(ctx context.Context, name string, c AccountChange, act AuditEntry) error
	// AccountByIdentity returns the account with this identity, or fault.NotFound.
	AccountByIdentity(ctx context.Context, identity string) (Account, error)
	// Account returns the account with this name, or fault.NotFound.
	Account(ctx context.Context, name string) (Account, error)
	// Accounts returns all accounts, sorted by name.
	Accounts(ctx context.Context) ([]Account, error)
	Sessions
	SecondFactors
}

// Sessions has the sessions of all accounts.
type Sessions interface {
	// BeginSession adds a session that starts now and the audit entry of the login, and returns the session with its instants set. It
	// deletes sessions that started longer than life ago.
	BeginSession(ctx context.Context, s Session, life time.Duration, act AuditEntry) (Session, error)
	// Session returns a session and the time on the log's clock, or fault.NotFound.
	Session(ctx context.Context, id [32]byte) (Session, time.Time, error)
	// SessionsOf returns the account's sessions, the last used first. Some may have expired.
	SessionsOf(ctx context.Context, account string) ([]Session, error)
	// TouchSession sets the session's SeenAt to now.
	TouchSession(ctx context.Context, id [32]byte) error
	// EndSession deletes a session. It returns nil if there is none.
	EndSession(ctx context.Context, id [32]byte) error
	// EndSessions deletes the account's session with this ID, or all of them if id is nil, and adds the audit entry, whose Detail becomes
	// their number. False: there is none, and nothing was changed.
	EndSessions(ctx context.Context, account string, id *[32]byte, act AuditEntry) (bool, error)
}

// Validated validates the session and act, the audit entry that is written with it. It returns act as it is stored; errors wrap
// ErrBadRequest.
func (s Session) Validated(act AuditEntry) (AuditEntry, error) {
	if !ValidTexts(s.Account, s.Via, s.Granted, s.Network, s.Browser) {
		return act, BadRequestf("a text of a session can't be stored")
	}
	return act.Validated()
}

// AccountChange sets the fields that are not nil. It leaves the others as they are in the database, so two changes of different fields
// at the same time both take effect.
type AccountChange struct {
	Role, Password, Identity *string
	DisabledAt               *time.Time // the zero time: may log in again
}

// Why an account cannot be added or changed. Both wrap ErrBadRequest.
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
// stored. The error is fault.NotFound if no account can have the name, else it wraps ErrBadRequest.
func (c AccountChange) Validated(name string, act AuditEntry) (AuditEntry, error) {
	if !IsAccountName(name) {
		return act, fault.NotFound
	}
	return Account{Name: name, Role: roles[0]}.Changed(c).Validated(act)
}

// SecondFactor is the secret from which an account's one-time codes are computed (RFC 6238). The account in the configuration can have
// one too.
type SecondFactor struct {
	Account string
	Sealed  []byte // the secret, encrypted
	Step    int64  // the newest time step whose code was used
	MadeAt  time.Time
	Codes   int // number of unused recovery codes
}

// SecondFactors has the second factors and recovery codes of accounts. Methods with an AuditEntry write it in the same transaction, and
// only if they return true.
type SecondFactors interface {
	// AddSecondFactor gives an account a second factor and recovery codes; codes are their hashes. False: the account has a second factor
	// already, and nothing was changed.
	AddSecondFactor(ctx context.Context, f SecondFactor, codes [][32]byte, act AuditEntry) (bool, error)
	// SecondFactor returns the account's second factor, or fault.NotFound.
	SecondFactor(ctx context.Context, account string) (SecondFactor, error)
	// TakeStep marks the code of a time step as used, and replaces Sealed, which must equal from, by to. False: the code of this or of a
	// later step was used before, or Sealed is not from; nothing was changed. Of parallel calls on all replicas one returns true.
	TakeStep(ctx context.Context, account string, step int64, from, to []byte) (bool, error)
	// TakeRecoveryCode deletes the recovery code with this hash. False: there is none. Of parallel calls on all replicas one returns true.
	TakeRecoveryCode(ctx context.Context, account string, hash [32]byte, act AuditEntry) (bool, error)
	// PutRecoveryCodes replaces all recovery codes of the account; codes are the hashes. False: the account has no second factor.
	PutRecoveryCodes(ctx context.Context, account string, codes [][32]byte, act AuditEntry) (bool, error)
	// DropSecondFactor deletes the account's second factor and recovery codes. False: the account has none.
	DropSecondFactor(ctx context.Context, account string, act AuditEntry) (bool, error)
}
