package verification

import "context"

// Cancel ends a pending verification: its code is never accepted or sent again. A verification that has ended is not changed, so
// repeating is harmless. Errors: ErrNotFound, ErrUnavailable.
func (s *Service) Cancel(ctx context.Context, c Caller, id string) (Answer, error) {
	if _, _, _, err := s.lookup(ctx, c, id); err != nil {
		return Answer{}, err
	}
	if _, err := s.Store.Cancel(ctx, id); err != nil {
		return Answer{}, s.mapStoreError(ctx, err)
	}
	return s.Get(ctx, c, id)
}
