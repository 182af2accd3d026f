package verification

import (
	"context"
	"errors"

	"sendcode/internal/store"
)

// Cancel ends a pending verification: its code is dead and is not sent again. One that has ended stays as it ended, so
// repeating is harmless. Errors: ErrNotFound, ErrUnavailable.
func (s *Service) Cancel(ctx context.Context, c Caller, id string) (Answer, error) {
	if _, _, _, err := s.lookup(ctx, c, id); err != nil {
		return Answer{}, err
	}
	if _, err := s.Log.Cancel(ctx, id); err != nil {
		return Answer{}, s.unreadable(err)
	}
	return s.Get(ctx, c, id)
}

// Named says which verification a back end means that kept no ID: the newest pending one that it holds for the
// recipient, as it would resend it. One that a browser or another session asked for is never meant.
type Named struct {
	Channel string
	To      string
	Purpose string // empty: default
	Session string // as it was given when the code was asked for
}

// CheckNamed is Check for a back end that kept no ID. Secret keys only: the caller must have made sure of that.
// Errors: those of Check; ErrNotFound also when no verification of that name is pending.
func (s *Service) CheckNamed(ctx context.Context, c Caller, n Named, typed string) (Checked, error) {
	if c.Kind != Secret {
		return Checked{}, ErrNotFound
	}
	a, err := s.understand(ctx, Ask{Caller: c, Channel: n.Channel, To: n.To, Purpose: n.Purpose, Session: n.Session})
	if err != nil {
		return Checked{}, err
	}
	v, err := s.Log.Newest(ctx, store.HolderQuery{
		App: c.App, Channel: a.to.Channel(), Recipient: a.hash, Purpose: a.purpose.Name, Holder: a.holder,
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Checked{}, ErrNotFound
	case err != nil:
		s.Logger.Error("log could not be read", "error", err)
		return Checked{}, ErrUnavailable
	}
	return s.Check(ctx, c, v.ID, typed)
}
