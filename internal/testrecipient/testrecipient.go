// Package testrecipient has the test recipients: recipients with a configured code, to which
// nothing is sent, for app store reviewers and automated tests. No rule refuses them; attempts and
// the record of sends apply to them as to any other.
package testrecipient

import (
	"time"

	"sendcode/internal/keys"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// Provider is the provider that the database shows for sends to test recipients.
const Provider = "test"

// Code is the configured code of a test recipient.
type Code struct {
	Code    string
	Expires time.Time // from then on the recipient is an ordinary one
}

// Codes are the codes of the test recipients, by the hash of the address as spelled.
type Codes map[recipient.Hash]Code

// Of returns the code of a verification's recipient; false if that recipient is no test recipient
// or has expired. Another spelling of its mailbox is not a test recipient: else the configured code
// would prove that spelling too.
func (c Codes) Of(k keys.Vault, v store.Verification, now time.Time) (Code, bool) {
	if !c.Has(v.Recipient, now) {
		return Code{}, false
	}
	address, err := k.AddressHashOf(v)
	return c[v.Recipient], err == nil && address == v.Recipient
}

// Has reports whether an address, as spelled, is a test recipient.
func (c Codes) Has(address recipient.Hash, now time.Time) bool {
	t, ok := c[address]
	return ok && now.Before(t.Expires)
}
