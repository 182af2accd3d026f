package keys

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/store"
)

// These labels give each kind of data its own key.
const (
	RecipientLabel  = "recipient"     // for the addresses of verifications
	CallerCodeLabel = "caller's code" // for codes that callers made

	codeLabel       = "code"
	knownTokenLabel = "known browser"
	messageIDLabel  = "message ID"
)

// Vault holds the keys. Several spellings of an address may be folded to one recipient
// (recipient.Folding), which the limiter, the database and the search use. But a mail goes to the
// spelling that was typed, and a resend or a proof is for that spelling only.
type Vault struct {
	IndexKey []byte            // key of recipients' hashes, ≥ 32 bytes
	Folding  recipient.Folding // which spellings of an address count as one
	Ring     *Ring             // keys of codes and encrypted recipients
}

// CountedHash returns the hash by which a recipient's events are counted and found. All spellings
// that are folded to one recipient have the same CountedHash.
func (vault Vault) CountedHash(r recipient.Recipient) recipient.Hash { return vault.Hashes(r).Counted }

// AddressHash returns the hash of the address as spelled, ignoring case.
func (vault Vault) AddressHash(r recipient.Recipient) recipient.Hash { return r.Hash(vault.IndexKey) }

// SuppressionHash returns the hash by which a recipient is suppressed. That is the AddressHash of a
// mail address, and the CountedHash of a phone number, because all spellings of a number reach one
// phone, and so one person.
func (vault Vault) SuppressionHash(r recipient.Recipient) recipient.Hash {
	if r.Channel() == recipient.SMS {
		return vault.CountedHash(r)
	}
	return vault.AddressHash(r)
}

func (vault Vault) Hashes(r recipient.Recipient) recipient.Hashes {
	return vault.Folding.Hashes(r, vault.IndexKey)
}

// SealRecipient encrypts an address, bound to its verification's ID. It fails if the ring has no
// key.
func (vault Vault) SealRecipient(r recipient.Recipient, id string) (sealed []byte, keyID string, err error) {
	sealed, err = vault.Ring.Seal(RecipientLabel, []byte(r.Address()), []byte(id))
	return sealed, vault.Ring.CurrentID(), err
}

// OpenRecipient decrypts a verification's address. It fails if the address was erased or its key is
// gone.
func (vault Vault) OpenRecipient(v store.Verification) (recipient.Recipient, error) {
	address, err := vault.Ring.Open(RecipientLabel, v.Sealed, []byte(v.ID))
	if err != nil {
		return recipient.Recipient{}, err
	}
	return recipient.Parse(v.Channel, string(address))
}

// AddressHashOfVerification returns the AddressHash of a verification's address. Errors: those of
// OpenRecipient.
func (vault Vault) AddressHashOfVerification(v store.Verification) (recipient.Hash, error) {
	r, err := vault.OpenRecipient(v)
	if err != nil {
		return recipient.Hash{}, err
	}
	return vault.AddressHash(r), nil
}

// SealKnownToken makes a token for a browser in which the code of v was entered. With it, the
// browser counts as known for the address, whose hash AddressHashOfVerification returns. It fails
// if the ring has no key.
func (vault Vault) SealKnownToken(v store.Verification, address recipient.Hash) (string, error) {
	sealed, err := vault.Ring.Seal(knownTokenLabel, []byte(v.ID), knownTokenBinding(v.App, v.Channel, address))
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// OpenKnownToken returns the ID of the verification in a known browser's token. It fails if the
// token is for another app or address, or if its key is gone.
func (vault Vault) OpenKnownToken(token, app string, ch recipient.Channel, address recipient.Hash) (id string, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", err
	}
	plain, err := vault.Ring.Open(knownTokenLabel, sealed, knownTokenBinding(app, ch, address))
	return string(plain), err
}

func knownTokenBinding(app string, ch recipient.Channel, address recipient.Hash) []byte {
	return []byte(app + "\x00" + string(ch) + "\x00" + address.String())
}

// DeriveCode derives the code of a verification. It fails if the key is gone, the nonce or the
// alphabet is invalid, or a caller made the code.
func (vault Vault) DeriveCode(v store.Verification) (string, error) {
	if v.CallerChecks {
		return "", errors.New("keys: the caller made this code, so it cannot be derived")
	}
	key, err := vault.Ring.Subkey(v.KeyID, codeLabel)
	if err != nil {
		return "", err
	}
	return code.Derive(key, v.ID, v.Nonce, CodeFormatOf(v))
}

// SealCallerCode encrypts a caller's code, bound to its send's ID. timed says that the message
// shows how long the code is valid. Sealing fails if the ring has no key.
func (vault Vault) SealCallerCode(code string, timed bool, send uuid.UUID) ([]byte, error) {
	plain := untimedPrefix + code
	if timed {
		plain = timedPrefix + code
	}
	return vault.Ring.Seal(CallerCodeLabel, []byte(plain), []byte(send.String()))
}

// SealCallerCode puts one of these prefixes before the code, and then encrypts it.
const timedPrefix, untimedPrefix = "t", "u"

// CodeForSend returns the code of a send that is being delivered. A caller's code is decrypted, and
// any other code is derived. timed says that the message shows how long the code is valid.
// CodeForSend fails as DeriveCode does, or if a caller's code is missing, belongs to another send
// or can't be decrypted.
func (vault Vault) CodeForSend(w store.Work) (code string, timed bool, err error) {
	if !w.Verification.CallerChecks {
		code, err = vault.DeriveCode(w.Verification)
		return code, true, err
	}
	plain, err := vault.Ring.Open(CallerCodeLabel, w.Code, []byte(w.Send.ID.String()))
	if err != nil || len(plain) == 0 {
		return "", false, cmp.Or(err, errCannotOpen)
	}
	return string(plain[1:]), strings.HasPrefix(string(plain), timedPrefix), nil
}

func CodeFormatOf(v store.Verification) code.Format {
	return code.Format{Alphabet: code.Alphabet(v.Alphabet), Length: v.CodeLength}
}

const notMeTokenLength = 43 // characters of the token in a mail's link

// MailTokens returns two texts that identify the send of a mail. Only a process with the key can
// make them. messageID is the local part of the Message-ID: the send's ID, a dot and 80 bits of an
// HMAC. notMe is the token in the link to report an unwanted mail: the send's ID and 128 other bits
// of the HMAC, in base64url.
//
// keyID is the verification's, so all attempts to deliver the send have the same texts. Error:
// ErrUnknownKey.
func (vault Vault) MailTokens(send uuid.UUID, keyID string) (messageID, notMe string, err error) {
	d, err := vault.Ring.derive(derivation{keyID, subkeyUse, messageIDLabel})
	if err != nil {
		return "", "", err
	}
	mac := hmac.New(sha256.New, d.key)
	mac.Write(send[:])
	var buffer [len(send) + sha256.Size]byte
	all := mac.Sum(append(buffer[:0], send[:]...))
	messageID = send.String() + "." + hex.EncodeToString(all[16:26])
	copy(all[16:], all[32:])
	return messageID, base64.RawURLEncoding.EncodeToString(all[:32]), nil
}

// SendOfMessageID returns the send that a Message-ID's local part identifies. Any key of the ring
// may have made it. The HMAC must be right, because browsers know the send's ID.
func (vault Vault) SendOfMessageID(local string) (uuid.UUID, bool) {
	local = strings.ToLower(local)
	text, _, _ := strings.Cut(local, ".")
	send, err := uuid.Parse(text)
	if err != nil { // most local parts have no UUID, and then no key is derived
		return uuid.Nil, false
	}
	return vault.sendOfMailToken(send, local)
}

// SendOfNotMeToken returns the send that a token in a mail's link identifies. Any key of the ring
// may have made the token.
func (vault Vault) SendOfNotMeToken(token string) (send uuid.UUID, ok bool) {
	given, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(token) != notMeTokenLength {
		return uuid.Nil, false
	}
	copy(send[:], given)
	return vault.sendOfMailToken(send, token)
}

func (vault Vault) sendOfMailToken(send uuid.UUID, given string) (uuid.UUID, bool) {
	for _, id := range vault.Ring.IDs() {
		messageID, notMe, err := vault.MailTokens(send, id)
		if err == nil && (hmac.Equal([]byte(messageID), []byte(given)) || hmac.Equal([]byte(notMe), []byte(given))) {
			return send, true
		}
	}
	return uuid.Nil, false
}

// PrefixHash keeps the limiter's keys from revealing most of a phone number.
func (vault Vault) PrefixHash(r recipient.Recipient) string {
	mac := hmac.New(sha256.New, vault.IndexKey)
	mac.Write([]byte("sendcode prefix v1\x00" + r.Prefix()))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// KeyedHash hashes texts, differently for each label. Without the index key, nobody can check a
// guess of the texts.
func (vault Vault) KeyedHash(label string, texts ...string) [32]byte {
	mac := hmac.New(sha256.New, vault.IndexKey)
	mac.Write([]byte("sendcode " + label + " v1\x00"))
	for _, text := range texts {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		mac.Write([]byte(text))
	}
	return [32]byte(mac.Sum(nil))
}

// SealBucket encrypts the name of a bucket, which may contain an address or a cookie. The same name
// always gives the same bytes, so the rows of a bucket can be found.
func (vault Vault) SealBucket(name string) []byte {
	tag := vault.KeyedHash("bucket", name)
	sealed := append(tag[:aes.BlockSize:aes.BlockSize], name...)
	vault.bucketStream(sealed).XORKeyStream(sealed[aes.BlockSize:], sealed[aes.BlockSize:])
	return sealed
}

// OpenBucket returns the name that SealBucket encrypted. It fails if that was done with another
// index key.
func (vault Vault) OpenBucket(sealed []byte) (string, error) {
	if len(sealed) < aes.BlockSize {
		return "", errCannotOpen
	}
	name := make([]byte, len(sealed)-aes.BlockSize)
	vault.bucketStream(sealed).XORKeyStream(name, sealed[aes.BlockSize:])
	if tag := vault.KeyedHash("bucket", string(name)); !hmac.Equal(tag[:aes.BlockSize], sealed[:aes.BlockSize]) {
		return "", errCannotOpen
	}
	return string(name), nil
}

// bucketStream takes the keyed hash at the beginning of sealed as its initial counter, so different
// names never use the same part of the stream.
func (vault Vault) bucketStream(sealed []byte) cipher.Stream {
	key := vault.KeyedHash("bucket names")
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // 32 bytes are a key of AES-256
	}
	return cipher.NewCTR(block, sealed[:aes.BlockSize])
}
