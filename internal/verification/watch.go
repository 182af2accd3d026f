package verification

import (
	"context"
	"errors"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// Where codes go and hardly any comes back, somebody may be paid for the messages (decision 22). The log says where that is,
// and keeps the pauses; here they are asked for in time, told of, and heeded.

// watchEvery is how often, of all replicas together, the log is asked where codes do not come back.
const (
	watchEvery   = time.Minute
	watchTimeout = 30 * time.Second
	watchTurn    = "watch"
)

// watchInTime begins to watch when it is time, not in the outbox's own turn: it reads what was sent in an hour.
func (o *outbox) watchInTime(ctx context.Context) {
	if o.Watch.Sends == 0 || o.Now().Sub(o.watched) < watchEvery {
		return
	}
	o.watched = o.Now()
	o.done.Go(func() { o.watch(ctx) })
}

func (o *outbox) watch(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	mine, err := o.Log.AcquireLease(bounded, watchTurn, watchEvery-o.Tick)
	if err == nil && mine {
		var started []store.PrefixPause
		started, err = o.Log.PausePrefixes(bounded, o.Watch)
		for _, p := range started {
			o.prefixPauseBegan(p)
		}
	}
	if err != nil && ctx.Err() == nil {
		o.Logger.Warn("where codes do not come back could not be looked at", "error", err)
	}
}

// prefixPauseBegan is the alert: people have to look.
func (o *outbox) prefixPauseBegan(p store.PrefixPause) {
	args := []any{
		"app", p.App, "prefix", p.Prefix, "country", p.Country, "sends", p.Sends, "approved", p.Approved, "until", p.Until.Format(time.RFC3339), "pause", p.ID,
	}
	if p.Usual >= 0 {
		args = append(args, "usual_percent", p.Usual)
	}
	o.Logger.Error("text messages to a prefix are paused: codes go there and hardly any comes back", args...)
	o.Observer.PrefixPaused(p.App, p.Country)
}

// prefixPaused says whether the log holds a pause for what a send goes to. It is asked at each attempt, so a pause also
// stops what waits for its next one, and one that was lifted stops nothing.
func (o *outbox) prefixPaused(ctx context.Context, s store.Send) (bool, error) {
	if o.Watch.Sends == 0 || s.Channel != recipient.SMS || s.Prefix == "" || o.Watch.Exempts(s.Prefix) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	_, paused, err := o.Log.PrefixPaused(ctx, s.App, s.Prefix)
	return paused, err
}

// LiftPrefix ends a prefix's pause before its time; the act is recorded with it. False: it had ended. Errors: ErrNotFound,
// *InvalidError, ErrUnavailable.
func (s *Service) LiftPrefix(ctx context.Context, l store.PrefixLifting, act store.AuditEntry) (store.PrefixPause, bool, error) {
	if err := CheckReason(l.Why, ""); err != nil {
		return store.PrefixPause{}, false, err
	}
	act.Reason = l.Why
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	p, done, err := s.Log.LiftPrefix(ctx, l, &act)
	if errors.Is(err, store.ErrNotFound) {
		return p, false, ErrNotFound
	}
	return p, done, s.unavailable(err)
}

// Instead is the channel to offer to somebody whom a text message did not reach, whatever kept it: empty where there is none.
// It tells nothing of why.
func Instead(ch recipient.Channel, s store.Status) recipient.Channel {
	if ch == recipient.SMS && (s == store.Failed || s == store.Undelivered) {
		return recipient.Email
	}
	return ""
}
