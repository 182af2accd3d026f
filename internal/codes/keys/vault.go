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

// Each label gives one kind of data its own key. RecipientLabel is for the addresses of
// verifications, and CallerCodeLabel is for the codes that callers make.
const (
	RecipientLabel  = "recipient"
	CallerCodeLabel = "caller's code"

	codeLabel       = "code"
	knownTokenLabel = "known browser"
	messageIDLabel  = "message ID"
)

// Vault holds the keys. Several spellings of an address may be folded to one recipient
// (recipient.Folding). The limiter, the database and the search use the folded recipient. But a
// mail goes to the typed spelling, a resend is allowed only with that spelling, and a proof is
// valid only for that spelling.
type Vault struct {
	IndexKey []byte            // key of the recipients' hashes, ≥ 32 bytes
	Folding  recipient.Folding // which spellings of an address count as one
	Ring     *Ring             // keys of codes and of encrypted recipients
}

// CountedHash returns the hash of a recipient for counting and searching its events. CountedHash is
// the same for all spellings that are folded to one recipient.
func (vault Vault) CountedHash(r recipient.Recipient) recipient.Hash { return vault.Hashes(r).Counted }

// AddressHash returns the hash of the address as spelled, ignoring case.
func (vault Vault) AddressHash(r recipient.Recipient) recipient.Hash { return r.Hash(vault.IndexKey) }

// SuppressionHash returns the hash under which a recipient is suppressed. For a mail address, this
// is the hash of the address as spelled. For a phone number, it is the counted hash: all spellings
// of a number that share this hash reach one phone, and so one person.
func (vault Vault) SuppressionHash(r recipient.Recipient) recipient.Hash {
	if r.Channel() == recipient.SMS {
		return vault.CountedHash(r)
	}
	return vault.AddressHash(r)
}

// Hashes returns all hashes of a recipient.
func (vault Vault) Hashes(r recipient.Recipient) recipient.Hashes {
	return vault.Folding.Hashes(r, vault.IndexKey)
}

// SealRecipient encrypts an address and binds it to the ID of its verification. It also returns the
// ID of the key. SealRecipient returns an error if the ring has no key.
func (vault Vault) SealRecipient(r recipient.Recipient, id string) (sealed []byte, keyID string, err error) {
	sealed, err = vault.Ring.Seal(RecipientLabel, []byte(r.Address()), []byte(id))
	return sealed, vault.Ring.CurrentID(), err
}

// OpenRecipient decrypts the address of a verification. It returns an error if the address was
// erased or if the key is not in the ring.
func (vault Vault) OpenRecipient(v store.Verification) (recipient.Recipient, error) {
	address, err := vault.Ring.Open(RecipientLabel, v.Sealed, []byte(v.ID))
	if err != nil {
		return recipient.Recipient{}, err
	}
	return recipient.Parse(v.Channel, string(address))
}

// AddressHashOfVerification decrypts the address of a verification and returns its AddressHash. It
// returns the errors of OpenRecipient.
func (vault Vault) AddressHashOfVerification(v store.Verification) (recipient.Hash, error) {
	r, err := vault.OpenRecipient(v)
	if err != nil {
		return recipient.Hash{}, err
	}
	return vault.AddressHash(r), nil
}

// SealKnownToken makes a token for a browser in which a person has entered the code of the
// verification v. With this token, the browser later counts as a known browser for the verified
// address. The parameter address is the hash that AddressHashOfVerification returns for v.
// SealKnownToken returns an error if the ring has no key.
func (vault Vault) SealKnownToken(v store.Verification, address recipient.Hash) (string, error) {
	sealed, err := vault.Ring.Seal(knownTokenLabel, []byte(v.ID), knownTokenBinding(v.App, v.Channel, address))
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// OpenKnownToken decrypts the token of a known browser and returns the verification ID in it. It
// returns an error if the token belongs to another app or address, or if the token's key is not in
// the ring.
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

// DeriveCode derives the code of a verification. It returns an error if the key is not in the ring,
// or if the verification's nonce or alphabet is invalid. It also returns an error if a caller made
// the code.
func (vault Vault) DeriveCode(v store.Verification) (string, error) {
	if v.CallerChecks {
		return "", errors.New("keys: the code is the caller's")
	}
	key, err := vault.Ring.Subkey(v.KeyID, codeLabel)
	if err != nil {
		return "", err
	}
	return code.Derive(key, v.ID, v.Nonce, CodeFormatOf(v))
}

// SealCustomCode encrypts a caller's code and binds it to the ID of its send. The parameter timed
// says whether the message shows how long the code is valid. SealCustomCode returns an error if the
// ring has no key.
func (vault Vault) SealCustomCode(code string, timed bool, send uuid.UUID) ([]byte, error) {
	plain := untimedPrefix + code
	if timed {
		plain = timedPrefix + code
	}
	return vault.Ring.Seal(CallerCodeLabel, []byte(plain), []byte(send.String()))
}

// The text that SealCustomCode encrypts begins with one of these characters, and the caller's code
// follows. The character says whether the message shows how long the code is valid.
const timedPrefix, untimedPrefix = "t", "u"

// CodeForSend returns the code of a send that is being delivered. A caller's code is decrypted, and
// any other code is derived from the verification. The result timed says whether the message shows
// how long the code is valid. CodeForSend returns the errors of DeriveCode. It also returns an
// error if a caller's code is missing or belongs to another send.
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

// CodeFormatOf returns the format of a verification's derived code.
func CodeFormatOf(v store.Verification) code.Format {
	return code.Format{Alphabet: code.Alphabet(v.Alphabet), Length: v.CodeLength}
}

// notMeTokenLength is the length of the token of a mail's link, in characters.
const notMeTokenLength = 43

// MailTokens returns the two texts that identify the send of a mail. Only a process with the key
// can compute these texts. The result messageID is the local part of the Message-ID: the send's ID,
// a dot and 80 bits of an HMAC. The result notMe is the token in the link with which a person
// reports an unwanted mail: the send's ID and 128 other bits of the HMAC, in base64url.
//
// The parameter keyID is the key ID of the send's verification, so all attempts to deliver a send
// have the same texts. If the ring has no such key, MailTokens returns ErrUnknownKey.
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

// SendOfMessageID returns the send whose Message-ID has this local part, under any key of the ring.
// If there is no such send, it returns false. A local part without the right HMAC is not accepted,
// because browsers know the send's ID and could make such a local part.
func (vault Vault) SendOfMessageID(local string) (uuid.UUID, bool) {
	local = strings.ToLower(local)
	text, _, _ := strings.Cut(local, ".")
	send, err := uuid.Parse(text)
	if err != nil { // as of most mails: no key is derived
		return uuid.Nil, false
	}
	return vault.sendOfMailToken(send, local)
}

// SendOfNotMeToken returns the send whose mail has this token in its link for reporting an unwanted
// mail, under any key of the ring. If there is no such send, it returns false.
func (vault Vault) SendOfNotMeToken(token string) (send uuid.UUID, ok bool) {
	given, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(token) != notMeTokenLength {
		return uuid.Nil, false
	}
	copy(send[:], given)
	return vault.sendOfMailToken(send, token)
}

// sendOfMailToken returns the send if one of its MailTokens is given.
func (vault Vault) sendOfMailToken(send uuid.UUID, given string) (uuid.UUID, bool) {
	for _, id := range vault.Ring.IDs() {
		messageID, notMe, err := vault.MailTokens(send, id)
		if err == nil && (hmac.Equal([]byte(messageID), []byte(given)) || hmac.Equal([]byte(notMe), []byte(given))) {
			return send, true
		}
	}
	return uuid.Nil, false
}

// PrefixHash returns a keyed hash of a phone number's prefix, so that the limiter's keys do not
// reveal most of the number.
func (vault Vault) PrefixHash(r recipient.Recipient) string {
	mac := hmac.New(sha256.New, vault.IndexKey)
	mac.Write([]byte("sendcode prefix v1\x00" + r.Prefix()))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// KeyedHash returns a keyed hash of the texts. The same texts have different hashes under different
// labels. Without the index key, a person who guesses the texts cannot check the guess.
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

// OpenBucket decrypts the name of a bucket. It returns an error if the name was sealed with another
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

// bucketStream returns the key stream that encrypts the name of a bucket. The parameter sealed
// begins with the keyed hash of the name. This hash is the initial counter of the stream, so
// different names never use the same part of the stream.
func (vault Vault) bucketStream(sealed []byte) cipher.Stream {
	key := vault.KeyedHash("bucket names")
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // 32 bytes are a key of AES-256
	}
	return cipher.NewCTR(block, sealed[:aes.BlockSize])
}
