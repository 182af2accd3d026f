package console

import (
	"context"
	"slices"

	"sendcode/internal/console/explain"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// facts reads what the verdict on a row goes by.
func (a *Console) facts(ctx context.Context, s store.Story, now quota.Decision, away error) (known explain.Facts, err error) {
	if away == nil {
		known.Quota = &now
	}
	if p, paused := a.Codes.Paused(s.Send.Channel, s.Send.Purpose); paused {
		known.Pause = &p
	}
	if s.Send.Status == store.Refused {
		known.Rule = a.scopeOf(s.Send)
		if s.Send.BlockedBy == verification.ChecksRule {
			if known.Locks, err = a.Codes.Lockouts(ctx, s.Send.App, s.Send.Channel, s.Send.Recipient); err != nil {
				return known, err
			}
		}
		if known.Code, err = a.codeOf(ctx, s); err != nil {
			return known, err
		}
	}
	known.Newer, err = a.newest(ctx, s.Send)
	return known, err
}

// scopeOf is whom the rule that refused a row looks at, as far as it is still in force.
func (a *Console) scopeOf(s store.Send) quota.Scope {
	for _, p := range a.Policies.Policies() {
		i := slices.IndexFunc(p.Rules, func(r quota.Rule) bool { return r.Name == s.BlockedBy })
		if i >= 0 && slices.Contains(p.Purposes, s.Purpose) {
			return p.Rules[i].Scope.Base()
		}
	}
	return ""
}

// newest is the latest request of the same recipient for the same; nil where that is the row itself, or nobody's by now.
func (a *Console) newest(ctx context.Context, s store.Send) (*store.Send, error) {
	if s.Recipient.IsZero() {
		return nil, nil
	}
	rows, err := a.Log.Sends(ctx, store.Filter{Recipient: &s.Recipient, App: s.App, Channel: s.Channel, Purpose: s.Purpose, Limit: 1})
	switch {
	case err != nil:
		return nil, err
	case len(rows) == 0 || rows[0].ID == s.ID:
		return nil, nil
	}
	return &rows[0], nil
}

// codeOf is the newest code among what led to a refusal. One that a back end's key asked for names none, and its recipient may have
// one all the same.
func (a *Console) codeOf(ctx context.Context, s store.Story) (*store.Verification, error) {
	if s.Verification != nil {
		return nil, nil
	}
	for _, row := range slices.Backward(s.Related) {
		if !explain.WentOut(row) || row.VerificationID == "" || row.Purpose != s.Send.Purpose {
			continue
		}
		its, err := a.Log.Story(ctx, row.ID)
		if err != nil {
			return nil, err
		}
		return its.Verification, nil
	}
	return nil, nil
}
