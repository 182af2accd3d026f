package rows

import (
	"context"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"sendcode/internal/console/explain"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/texts"
	"sendcode/quota"
	"sendcode/web"
)

// Now is the present state of a row's code and recipient.
type Now struct {
	Code  explain.Label // what became of its code; empty: it has none
	Left  int64         // milliseconds that the code can still be entered; 0: it cannot
	Quota []web.Pips    // what its recipient's rules say; nil: not known
}

// Codes reads verifications. Implementations: postgres.DB and sqlite.DB.
type Codes interface {
	CodesOf(ctx context.Context, ids []string) ([]store.Verification, time.Time, error)
}

// Quotas returns what a recipient's rules answer now. Implementation: *verification.Service.
type Quotas interface {
	RecipientQuota(ctx context.Context, app string, ch recipient.Channel, purpose string, h recipient.Hash) (quota.Decision, error)
}

// Bounds of asking for the quotas of one page. It is shown without quotas that come later.
const (
	quotasAtOnce = 4
	quotasTime   = 500 * time.Millisecond
)

// Page returns sends as rows of a page, with the present state of their codes and quotas. It fails only if the codes can't be read.
func Page(ctx context.Context, codes Codes, quotas Quotas, sends []store.Send, w texts.Words) ([]Row, error) {
	states, err := codeStates(ctx, codes, sends, w)
	if err != nil {
		return nil, err
	}
	pips := quotasOf(ctx, quotas, sends, w)
	all := make([]Row, 0, len(sends))
	for _, s := range sends {
		row := Of(s, w)
		if now := states[s.VerificationID]; s.Number > 0 && (now.Left == 0 || !explain.Lost(s)) { // nothing waits for what did not arrive
			row.Now = now
		}
		row.Now.Quota = pips[personOf(s)]
		all = append(all, row)
	}
	return all, nil
}

func codeStates(ctx context.Context, codes Codes, sends []store.Send, w texts.Words) (map[string]Now, error) {
	var ids []string
	for _, s := range sends {
		if s.Number > 0 {
			ids = append(ids, s.VerificationID)
		}
	}
	slices.Sort(ids)
	list, now, err := codes.CodesOf(ctx, slices.Compact(ids))
	states := map[string]Now{}
	for _, v := range list {
		state := explain.CodeOf(v, now)
		n := Now{Code: explain.Label{Sign: codeSigns[state].Sign, Word: w.Get("outcome.code." + string(state)), Tone: codeSigns[state].Tone}}
		if state == store.CodeWaiting {
			n.Left = v.ExpiresAt.Sub(now).Milliseconds()
		}
		states[v.ID] = n
	}
	return states, err
}

// codeSigns differ from the signs of sends, beside which they stand.
var codeSigns = map[store.CodeState]explain.Label{
	store.CodeEntered: {Sign: "✓", Tone: explain.Good}, store.CodeWaiting: {Sign: "…", Tone: explain.Still},
	store.CodeExpired: {Sign: "–", Tone: explain.Warn}, store.CodeLocked: {Sign: "✕", Tone: explain.Bad},
	store.CodeCanceled: {Sign: "–", Tone: explain.Warn},
}

// person is a recipient as rules count it.
type person struct {
	app     string
	channel recipient.Channel
	purpose string
	hash    recipient.Hash
}

func personOf(s store.Send) person { return person{s.App, s.Channel, s.Purpose, s.Recipient} }

// quotasOf asks once for each recipient. Forgotten recipients have no quota.
func quotasOf(ctx context.Context, quotas Quotas, sends []store.Send, w texts.Words) map[person][]web.Pips {
	ctx, cancel := context.WithTimeout(ctx, quotasTime)
	defer cancel()
	var people []person
	for _, s := range sends {
		if p := personOf(s); !s.Recipient.IsZero() && s.Recipients == 0 && !slices.Contains(people, p) {
			people = append(people, p)
		}
	}
	shown := make([][]web.Pips, len(people))
	var all errgroup.Group
	all.SetLimit(quotasAtOnce)
	for i, p := range people {
		all.Go(func() error {
			if d, err := quotas.RecipientQuota(ctx, p.app, p.channel, p.purpose, p.hash); err == nil {
				shown[i] = Pips(d, w)
			}
			return nil
		})
	}
	_ = all.Wait()
	by := map[person][]web.Pips{}
	for i, p := range people {
		by[p] = shown[i]
	}
	return by
}

// Pips returns what to draw for each of a recipient's rules.
func Pips(d quota.Decision, w texts.Words) (all []web.Pips) {
	for _, rule := range d.Public().Rules {
		all = append(all, pipsOf(rule, w))
	}
	return all
}

func pipsOf(s quota.State, w texts.Words) web.Pips {
	p := web.PipsOf(s)
	p.Name, p.Note = s.Name, w.Plural("quota.left", s.Remaining())
	if p.Blocked {
		p.Note = w.Get("quota.free", "wait", w.Wait(s.RetryAfter))
		p.Left = web.Left{MS: s.RetryAfter.Milliseconds(), Said: w.Get("quota.free"), Over: w.Get("quota.over")}
	}
	p.Spoken = w.Get("quota.used", "used", strconv.Itoa(s.Used), "limit", strconv.Itoa(s.Limit))
	return p
}
