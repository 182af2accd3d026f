package store

import (
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

// maxSealed bounds a sealed secret, in bytes.
const maxSealed = 512

// Checked is it as a database works on it, or an error that wraps ErrBadRequest.
func (f SecondFactor) Checked(act AuditEntry) (AuditEntry, error) {
	if f.Account == "" || !Storable(f.Account) || len(f.Sealed) == 0 || len(f.Sealed) > maxSealed {
		return act, Bad("a second factor has an account and a sealed secret")
	}
	return act.Checked()
}
