package policy

import (
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

const TestProvider = "test"

// TestCode is the configured code of a test recipient, for reviewers of app stores and automated
// tests. Nothing is sent to a test recipient, and no rule refuses it, but attempts count and sends
// are recorded as for other recipients.
type TestCode struct {
	Code    string
	Expires time.Time // from then on the recipient is an ordinary one
}

// TestCodes has the codes by the hash of the address as spelled.
type TestCodes map[recipient.Hash]TestCode

// addressHasher is implemented by keys.Vault.
type addressHasher interface {
	AddressHashOfVerification(v store.Verification) (recipient.Hash, error)
}

// Of returns the code of a verification's recipient, if it is a test recipient, the code hasn't
// expired, and the address can be decrypted. Only the configured spelling of an address is a test
// recipient. Otherwise the configured code would also prove other spellings of the same mailbox.
func (c TestCodes) Of(addresses addressHasher, v store.Verification, now time.Time) (TestCode, bool) {
	if !c.Has(v.Recipient, now) {
		return TestCode{}, false
	}
	address, err := addresses.AddressHashOfVerification(v)
	return c[v.Recipient], err == nil && address == v.Recipient
}

func (c TestCodes) Has(address recipient.Hash, now time.Time) bool {
	t, ok := c[address]
	return ok && now.Before(t.Expires)
}
