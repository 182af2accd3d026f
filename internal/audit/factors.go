package audit

import (
	"bytes"
	"context"
	"time"
)

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
	AddSecondFactor(ctx context.Context, f SecondFactor, codes [][32]byte, act Act) (bool, error)
	// SecondFactor finds an account's, or ErrNotFound.
	SecondFactor(ctx context.Context, account string) (SecondFactor, error)
	// TakeStep takes the code of a time step, once over all replicas: false where it or a later one was taken, or the account
	// has another second factor than the one that was sealed as from. The secret is kept sealed as to from then on.
	TakeStep(ctx context.Context, account string, step int64, from, to []byte) (bool, error)
	// TakeRecoveryCode takes one, once over all replicas, and writes the act with it; false: there is none of that hash.
	TakeRecoveryCode(ctx context.Context, account string, hash [32]byte, act Act) (bool, error)
	// PutRecoveryCodes has these codes replace all others, and writes the act with it; false: there is no second factor.
	PutRecoveryCodes(ctx context.Context, account string, codes [][32]byte, act Act) (bool, error)
	// DropSecondFactor takes an account's away, with its recovery codes, and writes the act with it; false: there is none.
	DropSecondFactor(ctx context.Context, account string, act Act) (bool, error)
}

// maxSealed bounds a sealed secret, in bytes.
const maxSealed = 512

func (f SecondFactor) checked(act Act) (Act, error) {
	if f.Account == "" || !storable(f.Account) || len(f.Sealed) == 0 || len(f.Sealed) > maxSealed {
		return act, bad("a second factor has an account and a sealed secret")
	}
	return act.checked()
}

func hashes(codes [][32]byte) map[[32]byte]bool {
	all := map[[32]byte]bool{}
	for _, c := range codes {
		all[c] = true
	}
	return all
}

// AddSecondFactor implements SecondFactors.
func (m *Memory) AddSecondFactor(ctx context.Context, f SecondFactor, codes [][32]byte, act Act) (_ bool, err error) {
	if act, err = f.checked(act); err != nil {
		return false, err
	}
	now, lost, err := m.enter(ctx, "AddSecondFactor")
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	if _, has := m.factors[f.Account]; has {
		return false, nil
	}
	f.MadeAt, f.Sealed, f.Codes = now, bytes.Clone(f.Sealed), 0
	m.factors[f.Account], m.recovery[f.Account] = f, hashes(codes)
	m.addAct(act, now)
	return true, nil
}

// SecondFactor implements SecondFactors.
func (m *Memory) SecondFactor(ctx context.Context, account string) (f SecondFactor, err error) {
	_, lost, err := m.enter(ctx, "SecondFactor")
	if err != nil {
		return f, err
	}
	defer m.leave(lost, &err)
	f, has := m.factors[account]
	if !has {
		return f, ErrNotFound
	}
	f.Sealed, f.Codes = bytes.Clone(f.Sealed), len(m.recovery[account])
	return f, nil
}

// TakeStep implements SecondFactors.
func (m *Memory) TakeStep(ctx context.Context, account string, step int64, from, to []byte) (_ bool, err error) {
	_, lost, err := m.enter(ctx, "TakeStep")
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	f, has := m.factors[account]
	if !has || f.Step >= step || !bytes.Equal(f.Sealed, from) {
		return false, nil
	}
	f.Step, f.Sealed = step, bytes.Clone(to)
	m.factors[account] = f
	return true, nil
}

// TakeRecoveryCode implements SecondFactors.
func (m *Memory) TakeRecoveryCode(ctx context.Context, account string, hash [32]byte, act Act) (bool, error) {
	return m.factorAct(ctx, "TakeRecoveryCode", act, func() bool {
		has := m.recovery[account][hash]
		delete(m.recovery[account], hash)
		return has
	})
}

// PutRecoveryCodes implements SecondFactors.
func (m *Memory) PutRecoveryCodes(ctx context.Context, account string, codes [][32]byte, act Act) (bool, error) {
	return m.factorAct(ctx, "PutRecoveryCodes", act, func() bool {
		_, has := m.factors[account]
		if has {
			m.recovery[account] = hashes(codes)
		}
		return has
	})
}

// DropSecondFactor implements SecondFactors.
func (m *Memory) DropSecondFactor(ctx context.Context, account string, act Act) (bool, error) {
	return m.factorAct(ctx, "DropSecondFactor", act, func() bool {
		_, has := m.factors[account]
		delete(m.factors, account)
		delete(m.recovery, account)
		return has
	})
}

// factorAct writes the act where something was done.
func (m *Memory) factorAct(ctx context.Context, method string, act Act, do func() bool) (done bool, err error) {
	if act, err = act.checked(); err != nil {
		return false, err
	}
	now, lost, err := m.enter(ctx, method)
	if err != nil {
		return false, err
	}
	defer m.leave(lost, &err)
	if done = do(); done {
		m.addAct(act, now)
	}
	return done, nil
}
