// Package vault is what the service's secret keys are used for: it hashes recipients, seals and opens their addresses, and derives
// codes. Everything that needs a key goes through it; packages verification, outbox, jobs and support hold one each.
package vault

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"sendcode/internal/code"
	"sendcode/internal/keyring"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// Labels separate the keys of the ring.
const (
	sealLabel = "recipient"
	codeLabel = "code"
)

// Vault holds the keys. Several spellings of an address may be one mailbox (recipient.Folding). Then they are one recipient to the
// limiter, the log and the search. They stay several addresses: a mail goes to the one that was typed, only its own holder sends it
// again, and what is proven is proven of it alone.
type Vault struct {
	IndexKey []byte            // keyed hash of recipients, ≥ 32 bytes
	Folding  recipient.Folding // which spellings of an address count as one
	Ring     *keyring.Ring     // codes, sealed recipients
}

// Hash names the mailbox or number, for all that is counted and searched.
func (k Vault) Hash(r recipient.Recipient) recipient.Hash { return k.Folding.Hash(r, k.IndexKey) }

// AddressHash names the very address, in whatever case.
func (k Vault) AddressHash(r recipient.Recipient) recipient.Hash { return r.Hash(k.IndexKey) }

// Mailbox names the mailbox that all spellings of an address reach; see recipient.Folding.
func (k Vault) Mailbox(r recipient.Recipient) recipient.Hash {
	return k.Folding.Mailbox(r, k.IndexKey)
}

// Hashes are Hash, AddressHash and Mailbox, computed at once.
func (k Vault) Hashes(r recipient.Recipient) recipient.Hashes { return k.Folding.Hashes(r, k.IndexKey) }

// Seal encrypts an address for the verification with the ID, and names the key.
func (k Vault) Seal(r recipient.Recipient, id string) (sealed []byte, keyID string, err error) {
	sealed, err = k.Ring.Seal(sealLabel, []byte(r.Address()), []byte(id))
	return sealed, k.Ring.Current(), err
}

// Recipient decrypts the address of a verification. It fails once the address was erased, or its key left the ring.
func (k Vault) Recipient(v store.Verification) (recipient.Recipient, error) {
	address, err := k.Ring.Open(sealLabel, v.Sealed, []byte(v.ID))
	if err != nil {
		return recipient.Recipient{}, err
	}
	return recipient.Parse(v.Channel, string(address))
}

// AddressOf is the AddressHash of a verification's address, whatever was folded when its row was written.
func (k Vault) AddressOf(v store.Verification) (recipient.Hash, error) {
	r, err := k.Recipient(v)
	if err != nil {
		return recipient.Hash{}, err
	}
	return k.AddressHash(r), nil
}

// Code derives the code of a verification.
func (k Vault) Code(v store.Verification) (string, error) {
	key, err := k.Ring.Subkey(v.KeyID, codeLabel)
	if err != nil {
		return "", err
	}
	return code.Derive(key, v.ID, v.Nonce, Shape(v))
}

// Shape is that of a verification's derived code.
func Shape(v store.Verification) code.Shape {
	return code.Shape{Alphabet: code.Alphabet(v.Alphabet), Length: v.CodeLength}
}

// Prefix hides the prefix of a number, which is most of it, from readers of the limiter's keys.
func (k Vault) Prefix(r recipient.Recipient) string {
	mac := hmac.New(sha256.New, k.IndexKey)
	mac.Write([]byte("sendcode prefix v1\x00" + r.Prefix()))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// Keyed is a hash of some texts that cannot be tried out without the index key: a recipient is easily guessed.
func (k Vault) Keyed(label string, texts ...string) [32]byte {
	mac := hmac.New(sha256.New, k.IndexKey)
	mac.Write([]byte("sendcode " + label + " v1\x00"))
	for _, text := range texts {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		mac.Write([]byte(text))
	}
	return [32]byte(mac.Sum(nil))
}
