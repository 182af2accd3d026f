package admin

import (
	"context"
	"slices"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// seen is what a verdict goes by beside the row's own story.
type seen struct {
	quota *quota.Decision     // what the recipient's rules say now; nil: not known
	pause *policy.Pause       // that holds now
	rule  quota.Scope         // of the rule that refused the row; empty: not known
	newer *store.Send         // the newest request like it, where that is another one
	locks []store.Lockout     // of a refusal by failed checks: the kinds of callers whose codes are locked out now
	has   *store.Verification // of a refusal that belongs to no code: the newest one that reached its recipient
}

func (a *Console) seen(ctx context.Context, s store.Story, now quota.Decision, away error) (known seen, err error) {
	if away == nil {
		known.quota = &now
	}
	if p, paused := a.Codes.Paused(s.Send.Channel, s.Send.Purpose); paused {
		known.pause = &p
	}
	if s.Send.Status == store.Refused {
		known.rule = a.scopeOf(s.Send)
		if s.Send.BlockedBy == verification.ChecksRule {
			if known.locks, err = a.Codes.Lockouts(ctx, s.Send.App, s.Send.Channel, s.Send.Recipient); err != nil {
				return known, err
			}
		}
		if known.has, err = a.codeOf(ctx, s); err != nil {
			return known, err
		}
	}
	known.newer, err = a.newest(ctx, s.Send)
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
		if !wentOut(row) || row.VerificationID == "" || row.Purpose != s.Send.Purpose {
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
