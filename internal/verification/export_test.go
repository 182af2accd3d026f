package verification

import (
	"context"

	"github.com/google/uuid"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// Exported for the tests of the use cases.
const (
	ClaimLease        = claimLease
	LockoutRemembered = lockoutRemembered
)

type (
	Asked    = asked
	KeyClaim = claim
)

func (s *Service) Understand(ctx context.Context, ask Ask) (Asked, error) {
	return s.parseAsk(ctx, ask)
}

func (a asked) Subject() policy.Subject { return a.subject }

func (s *Service) Claim(ctx context.Context, a Asked) (KeyClaim, error) { return s.claim(ctx, a) }

func (c claim) SendID() uuid.UUID { return c.send }

func (c claim) Inherited() bool { return c.inherited }

func (s *Service) Take(ctx context.Context, a Asked, c KeyClaim) (quota.Decision, error) {
	return s.take(ctx, a, c)
}

func (s *Service) Begin(ctx context.Context, a Asked, c KeyClaim, d quota.Decision) (store.Begun, error) {
	return s.begin(ctx, a, c, d)
}

func (s *Service) Decide(ctx context.Context, a Asked, c KeyClaim) (Answer, error) {
	var err error
	if a.slot, err = s.recipients.Enter(ctx, "a line"); err != nil {
		return Answer{}, err
	}
	return s.decide(ctx, a, c)
}

// Lines is how many recipients have a line.
func (s *Service) Lines() int { return s.recipients.Len() }
