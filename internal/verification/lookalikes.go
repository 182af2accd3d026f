package verification

import (
	"context"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// recently is how far back somebody's request is looked for under another spelling: who asks for their code asked today.
const recently = 24 * time.Hour

// Lookalikes are the newest requests of recipients one slip of the hand away from this one, at most so many of them: whoever
// mistyped their address waits for a mail that went there. Errors: *InvalidError, ErrUnavailable.
func (s *Service) Lookalikes(ctx context.Context, channel, to string, most int) ([]store.Send, error) {
	r, err := parseRecipient(channel, to)
	if err != nil {
		return nil, err
	}
	mine := s.hash(r)
	var near []recipient.Hash
	for _, other := range r.Near() {
		if h := s.hash(other); h != mine { // two spellings of one mailbox are the same
			near = append(near, h)
		}
	}
	rows, err := s.Log.Latest(ctx, near, recently)
	if err != nil {
		s.Logger.Error("log could not be read", "error", err)
		return nil, ErrUnavailable
	}
	return rows[:min(most, len(rows))], nil
}

// Served says why requests for a recipient are turned away before anything is written; nil where they are not. Errors: *InvalidError.
func (s *Service) Served(channel, to string) error {
	r, err := s.parse(channel, to, "")
	if err != nil {
		return err
	}
	return s.Terms().served(r)
}

func (t Terms) served(r recipient.Recipient) error {
	if err := t.Numbers.refuse(r); err != nil {
		return err
	}
	if t.Blocks.disposable(r) {
		return invalid("to", Disposable, "Addresses at this domain live for a short while only; use another one.")
	}
	return nil
}
