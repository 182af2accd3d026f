package proof

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
)

// Store is implemented by sqldb.DB.
type Store interface {
	Verification(ctx context.Context, id string) (store.Verification, store.Send, time.Time, error)
	Redeem(ctx context.Context, id string, keyHash []byte) (bool, error)
}

// Redeemer makes references and redeems proofs and references. Safe for concurrent use.
type Redeemer struct {
	Store  Store
	Proofs *Signer
	Vault  keys.Vault
	Policy *policy.CurrentSet
	Now    func() time.Time
}

var (
	// ErrRedeemed: the approval was redeemed before, with another Idempotency-Key or none.
	ErrRedeemed = errors.New("redemption: the proof was redeemed")
	// ErrErased: the recipient was erased after the approval.
	ErrErased = errors.New("redemption: the recipient was erased")
)

const ReferenceLife = 5 * time.Minute // how long a reference can be redeemed

// referenceLabel keeps the key of references apart from the ring's other keys.
const referenceLabel = "return reference"

type RedeemRequest struct {
	Proof, Reference string // exactly one of them
	IdempotencyKey   string // Idempotency-Key; empty: none
}

// RedeemedVerification is an approved verification with its full address.
type RedeemedVerification struct {
	ID            string
	Channel       recipient.Channel
	To            string // the whole address or number
	RecipientHash string // the proof's sub
	Purpose       string
	ApprovedAt    time.Time
	Test          bool
}

// Redeem returns the address of an approval and marks the approval as redeemed. A later call with
// the Idempotency-Key of the first gets the address again. Errors: ErrRedeemed for any other later
// call; ErrErased; *fault.InvalidError unless exactly one of proof and reference is given, and if
// it is expired, forged or of another app; fault.Unavailable if the database fails or the address
// can't be decrypted.
func (redeemer *Redeemer) Redeem(ctx context.Context, app string, r RedeemRequest) (RedeemedVerification, error) {
	id, expires, err := redeemer.openToken(app, r)
	if err != nil {
		return RedeemedVerification{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
	defer cancel()
	v, _, now, err := redeemer.Store.Verification(ctx, id)
	switch {
	case errors.Is(err, fault.NotFound):
		return RedeemedVerification{}, invalidProofError(r)
	case err != nil:
		return RedeemedVerification{}, err
	case v.App != app || v.ApprovedAt.IsZero():
		return RedeemedVerification{}, invalidProofError(r)
	case !now.Before(expires):
		return RedeemedVerification{}, fault.Invalid(r.fieldName(), "expired", "It has expired; have the person enter a code again.")
	case len(v.Sealed) == 0:
		return RedeemedVerification{}, ErrErased
	}
	return redeemer.markRedeemed(ctx, v, r)
}

func (redeemer *Redeemer) markRedeemed(ctx context.Context, v store.Verification, r RedeemRequest) (RedeemedVerification, error) {
	var keyHash []byte
	if r.IdempotencyKey != "" {
		hash := redeemer.Vault.KeyedHash("redemption", v.App, r.IdempotencyKey)
		keyHash = hash[:]
	}
	if !v.RedeemedAt.IsZero() && (len(keyHash) == 0 || !bytes.Equal(v.RedeemedBy, keyHash)) {
		return RedeemedVerification{}, ErrRedeemed
	}
	won, err := redeemer.Store.Redeem(ctx, v.ID, keyHash)
	switch {
	case err != nil:
		return RedeemedVerification{}, err
	case !won: // another request was first
		return RedeemedVerification{}, ErrRedeemed
	}
	return redeemer.newRedeemed(v)
}

func (redeemer *Redeemer) newRedeemed(v store.Verification) (RedeemedVerification, error) {
	to, err := redeemer.Vault.OpenRecipient(v)
	if err != nil { // the key of the recipient is no longer in the ring
		return RedeemedVerification{}, fault.Unavailable.Wrap(fmt.Errorf("recipient not decrypted: %w", err))
	}
	_, test := redeemer.Policy.Get().TestRecipients.Of(redeemer.Vault, v, v.ApprovedAt)
	return RedeemedVerification{
		ID: v.ID, Channel: v.Channel, To: to.Address(), RecipientHash: redeemer.Vault.AddressHash(to).String(), Purpose: v.Purpose,
		ApprovedAt: v.ApprovedAt, Test: test,
	}, nil
}

// openToken returns the ID of the verification, and when the token expires. Error:
// *fault.InvalidError.
func (redeemer *Redeemer) openToken(app string, r RedeemRequest) (id string, expires time.Time, err error) {
	switch {
	case (r.Proof == "") == (r.Reference == ""):
		return "", time.Time{}, fault.Invalid("proof", "missing", "Give one of proof and reference, and not both.")
	case r.Reference != "":
		return redeemer.openReference(app, r)
	}
	claims, expires, err := redeemer.Proofs.VerifySignature(r.Proof)
	if err != nil || claims.App != app {
		return "", time.Time{}, invalidProofError(r)
	}
	return claims.ID, expires, nil
}

func (r RedeemRequest) fieldName() string {
	if r.Reference != "" {
		return "reference"
	}
	return "proof"
}

// invalidProofError doesn't reveal whether a proof is forged, of another app, or of a deleted
// verification.
func invalidProofError(r RedeemRequest) error {
	return fault.Invalid(r.fieldName(), "invalid", "This is not a proof or reference of this app, or it is not complete.")
}

// ReferenceTo makes a reference to the approval for which an app has a proof. Error:
// *fault.InvalidError if the proof is expired, forged or of another app.
func (redeemer *Redeemer) ReferenceTo(app, proof string) (string, error) {
	r := RedeemRequest{Proof: proof}
	id, expires, err := redeemer.openToken(app, r)
	if err == nil && !redeemer.Now().Before(expires) {
		err = invalidProofError(r)
	}
	if err != nil {
		return "", err
	}
	return redeemer.NewReference(app, id)
}

// NewReference makes a reference to an approved verification, valid for ReferenceLife. It is
// encrypted, so that a URL doesn't show the verification's ID. It fails if the vault's ring has no
// key.
func (redeemer *Redeemer) NewReference(app, id string) (string, error) {
	text := append(binary.BigEndian.AppendUint64(nil, uint64(redeemer.Now().Add(ReferenceLife).Unix())), id...)
	sealed, err := redeemer.Vault.Ring.Seal(referenceLabel, text, []byte(app))
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

func (redeemer *Redeemer) openReference(app string, r RedeemRequest) (id string, expires time.Time, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(r.Reference)
	if err != nil {
		return "", time.Time{}, invalidProofError(r)
	}
	text, err := redeemer.Vault.Ring.Open(referenceLabel, sealed, []byte(app))
	if err != nil || len(text) < 8 {
		return "", time.Time{}, invalidProofError(r)
	}
	return string(text[8:]), time.Unix(int64(binary.BigEndian.Uint64(text)), 0), nil
}
