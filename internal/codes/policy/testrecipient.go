package policy

import (
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
)

// TestProvider is the provider that the database shows for sends to test recipients.
const TestProvider = "test"

// TestCode is the configured code of a test recipient. The reviewers of app stores and automated
// tests use test recipients. Nothing is sent to a test recipient, and no rule refuses its requests.
// But attempts are counted and sends are recorded as for any other recipient.
type TestCode struct {
	Code    string
	Expires time.Time // from then on the recipient is an ordinary one
}

// TestCodes has the codes of the test recipients. The key is the hash of the address as spelled.
type TestCodes map[recipient.Hash]TestCode

// addressHasher decrypts an address and hashes it. Implementation: keys.Vault.
type addressHasher interface {
	AddressHashOfVerification(v store.Verification) (recipient.Hash, error)
}

// Of returns the code of a verification's recipient. It returns false if the recipient is not a
// test recipient, if the test code has expired, or if the address cannot be decrypted. Only the
// configured spelling of an address is a test recipient. If another spelling of the same mailbox
// were one too, the configured code would also prove that spelling.
func (c TestCodes) Of(addresses addressHasher, v store.Verification, now time.Time) (TestCode, bool) {
	if !c.Has(v.Recipient, now) {
		return TestCode{}, false
	}
	address, err := addresses.AddressHashOfVerification(v)
	return c[v.Recipient], err == nil && address == v.Recipient
}

// Has reports whether an address, as spelled, is a test recipient.
func (c TestCodes) Has(address recipient.Hash, now time.Time) bool {
	t, ok := c[address]
	return ok && now.Before(t.Expires)
}
