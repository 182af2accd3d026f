package console

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"sendcode/internal/console/explain"
	"sendcode/internal/recipient"
	"sendcode/internal/texts"
	"sendcode/internal/verification"
)

// A recipient of whom the log has nothing has a verdict as well. The search alone sees the address; so it hands on, in the list's own
// address, why such a recipient is turned away, and the hashes of those who are spelled almost the same and asked lately.

// hints is what a search found out about a recipient without rows.
type hints struct {
	unserved string // why requests for it are turned away; empty: they are not
	near     []recipient.Hash
}

const (
	hintUnserved = "unserved"
	hintNear     = "near"
	maxNear      = 3
	nearTime     = 48 * time.Hour // longer than a search looks back, so that its address can be handed to a colleague
)

// hintsOf are those of a recipient of whom there is nothing.
func (a *Console) hintsOf(ctx context.Context, ch recipient.Channel, to string) (h hints, err error) {
	var bad *verification.InvalidError
	if errors.As(a.Codes.Served(string(ch), to), &bad) {
		h.unserved = bad.Reason
		return h, nil
	}
	rows, err := a.Codes.NearSpellings(ctx, string(ch), to, maxNear)
	for _, row := range rows {
		h.near = append(h.near, row.Recipient)
	}
	return h, err
}

// address adds them to that of the recipient's list.
func (h hints) address(to string) string {
	if h.unserved != "" {
		to += "&" + hintUnserved + "=" + url.QueryEscape(h.unserved)
	}
	var near []string
	for _, hash := range h.near {
		near = append(near, hash.String())
	}
	if len(near) > 0 {
		to += "&" + hintNear + "=" + strings.Join(near, ".")
	}
	return to
}

// takeHints parts them from the filters of an address. What is no hint of ours is left to those, which complain of it.
func takeHints(raw string) (h hints, rest string) {
	values, err := url.ParseQuery(raw)
	if err != nil || !values.Has("recipient") || !values.Has(hintUnserved) && !values.Has(hintNear) {
		return h, raw
	}
	for hash := range strings.SplitSeq(values.Get(hintNear), ".") {
		if parsed, err := recipient.ParseHash(hash); err == nil && len(h.near) < maxNear {
			h.near = append(h.near, parsed)
		}
	}
	h.unserved = values.Get(hintUnserved)
	values.Del(hintNear)
	values.Del(hintUnserved)
	return h, values.Encode()
}

// nobody is the verdict on a recipient without rows.
func (a *Console) nobody(ctx context.Context, h hints, w texts.Words) (*explain.Verdict, error) {
	if v := explain.Unserved(h.unserved, w); v != nil {
		return v, nil
	}
	rows, err := a.Log.Latest(ctx, h.near, nearTime)
	if err != nil {
		return nil, err
	}
	return explain.Unknown(rows, w), nil
}
