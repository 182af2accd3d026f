package audit

import (
	"context"
	"maps"
	"slices"
	"strings"
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

// Accounts is the part of the log that is about administrators.
type Accounts interface {
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

func (s Session) checked(act Act) (Act, error) {
	if !storable(s.Account, s.Via, s.Granted) {
		return act, bad("a text of a session can't be stored")
	}
	return act.checked()
}

// AccountOf implements Accounts.
func (m *Memory) AccountOf(ctx context.Context, identity string) (_ Account, err error) {
	_, lost, err := m.enter(ctx, "AccountOf")
	if err != nil {
		return Account{}, err
	}
	defer m.leave(lost, &err)
	for _, a := range m.accounts {
		if a.Identity == identity && identity != "" {
			return a, nil
		}
	}
	return Account{}, ErrNotFound
}

// Account implements Accounts.
func (m *Memory) Account(ctx context.Context, name string) (a Account, err error) {
	_, lost, err := m.enter(ctx, "Account")
	if err != nil {
		return a, err
	}
	defer m.leave(lost, &err)
	a, ok := m.accounts[name]
	if !ok {
		return a, ErrNotFound
	}
	return a, nil
}

// Accounts implements Accounts.
func (m *Memory) Accounts(ctx context.Context) (list []Account, err error) {
	_, lost, err := m.enter(ctx, "Accounts")
	if err != nil {
		return nil, err
	}
	defer m.leave(lost, &err)
	return slices.SortedFunc(maps.Values(m.accounts), func(a, b Account) int { return strings.Compare(a.Name, b.Name) }), nil
}

// BeginSession implements Accounts.
func (m *Memory) BeginSession(ctx context.Context, s Session, life time.Duration, act Act) (_ Session, err error) {
	if act, err = s.checked(act); err != nil {
		return s, err
	}
	now, lost, err := m.enter(ctx, "BeginSession")
	if err != nil {
		return s, err
	}
	defer m.leave(lost, &err)
	for id, old := range m.sessions {
		if now.Sub(old.StartedAt) > life.Truncate(time.Microsecond) {
			delete(m.sessions, id)
		}
	}
	s.StartedAt, s.SeenAt, s.FactorAt = now, now, time.Time{}
	m.sessions[s.ID] = s
	m.addAct(act, now)
	return s, nil
}

// Session implements Accounts.
func (m *Memory) Session(ctx context.Context, id [32]byte) (s Session, now time.Time, err error) {
	now, lost, err := m.enter(ctx, "Session")
	if err != nil {
		return s, now, err
	}
	defer m.leave(lost, &err)
	s, ok := m.sessions[id]
	if !ok {
		return s, now, ErrNotFound
	}
	if f, has := m.factors[s.Account]; has {
		s.FactorAt = f.MadeAt
	}
	return s, now, nil
}

// SeeSession implements Accounts.
func (m *Memory) SeeSession(ctx context.Context, id [32]byte) (err error) {
	now, lost, err := m.enter(ctx, "SeeSession")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	if s, ok := m.sessions[id]; ok {
		s.SeenAt = now
		m.sessions[id] = s
	}
	return nil
}

// EndSession implements Accounts.
func (m *Memory) EndSession(ctx context.Context, id [32]byte) (err error) {
	_, lost, err := m.enter(ctx, "EndSession")
	if err != nil {
		return err
	}
	defer m.leave(lost, &err)
	delete(m.sessions, id)
	return nil
}
