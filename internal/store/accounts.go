package store

import (
	"context"
	"time"
)

// Account is somebody who may log in to the console.
type Account struct {
	Name       string
	Role       string // reader, operator or owner
	Password   string // argon2id, PHC string; empty: none
	Identity   string // what the provider calls who logs in by it; empty: nobody
	MadeAt     time.Time
	DisabledAt time.Time // zero: may log in
}

// Session is somebody who is logged in, on whatever replica.
type Session struct {
	ID        [32]byte // SHA-256 of what the cookie holds: who reads the table can't log in by it
	Account   string
	Bound     [32]byte // names the password, or the provider, of then
	Via       string   // how they logged in; empty: by password
	Granted   string   // what the provider said that gave a role to somebody without an account
	Passed    bool     // began with the second factor of then
	StartedAt time.Time
	SeenAt    time.Time
	FactorAt  time.Time // read alone: when the account's second factor was made; zero: it has none
}

// AccountStore has the administrators, their sessions and their second factors.
type AccountStore interface {
	// AddAccount adds an account that is made now, and writes the act with it. Errors: ErrNameTaken, ErrIdentityTaken.
	AddAccount(ctx context.Context, a Account, act Act) error
	// ChangeAccount changes what c names of an account, and writes the act with it, whose detail is the role that the account
	// has then. Errors: ErrNotFound, ErrIdentityTaken.
	ChangeAccount(ctx context.Context, name string, c AccountChange, act Act) error
	// AccountOf finds the account of an identity, or ErrNotFound.
	AccountOf(ctx context.Context, identity string) (Account, error)
	// Account finds one by its name, or ErrNotFound.
	Account(ctx context.Context, name string) (Account, error)
	// Accounts lists them by their names.
	Accounts(ctx context.Context) ([]Account, error)
	// BeginSession writes a session that starts now, and the act of logging in with it. Sessions that started longer than
	// life ago go.
	BeginSession(ctx context.Context, s Session, life time.Duration, act Act) (Session, error)
	// Session finds one, with the log's clock, or ErrNotFound.
	Session(ctx context.Context, id [32]byte) (Session, time.Time, error)
	// SeeSession says that a session is in use now.
	SeeSession(ctx context.Context, id [32]byte) error
	// EndSession ends one. There may be none.
	EndSession(ctx context.Context, id [32]byte) error
	SecondFactors
}

func (s Session) Checked(act Act) (Act, error) {
	if !Storable(s.Account, s.Via, s.Granted) {
		return act, Bad("a text of a session can't be stored")
	}
	return act.Checked()
}
