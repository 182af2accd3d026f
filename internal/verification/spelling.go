package verification

import (
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// Several spellings of an address may be one mailbox (recipient.Folding). Then they are one recipient to the limiter, the
// log and the search. They stay several addresses: a mail goes to the one that was typed, only its own holder sends it
// again, and what is proven is proven of it alone.

// hash names the mailbox, for all that is counted and searched.
func (s *Service) hash(r recipient.Recipient) recipient.Hash { return s.Folding.Hash(r, s.IndexKey) }

// spelling names the very address of a verification, whatever was folded when its row was written. It fails once the
// address was erased, or its key left the ring.
func (s *Service) spelling(v store.Verification) (recipient.Hash, error) {
	r, err := s.recipientOf(v)
	if err != nil {
		return recipient.Hash{}, err
	}
	return r.Hash(s.IndexKey), nil
}

// recipientOf decrypts the address of a verification.
func (s *Service) recipientOf(v store.Verification) (recipient.Recipient, error) {
	address, err := s.Ring.Open(sealLabel, v.Sealed, []byte(v.ID))
	if err != nil {
		return recipient.Recipient{}, err
	}
	return recipient.Parse(v.Channel, string(address))
}
