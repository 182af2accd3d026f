package verification_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/run/app/core"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// delayedDatabase is a database that delays each write of a send. A write fails if its context ends
// first.
type delayedDatabase struct {
	core.Database
	claim, begin, release time.Duration
	uncertain             bool // a Begin that is cut off may have been committed
}

func await(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return store.WrapUnavailable(ctx.Err())
	}
}

func (d *delayedDatabase) ClaimIdempotencyKey(ctx context.Context, c store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error) {
	if err := await(ctx, d.claim); err != nil {
		return store.IdempotencyClaimAnswer{}, err
	}
	return d.Database.ClaimIdempotencyKey(ctx, c)
}

func (d *delayedDatabase) Begin(ctx context.Context, in store.Intent) (store.BeginAnswer, error) {
	if err := await(ctx, d.begin); err != nil {
		if d.uncertain {
			err = store.WrapUncertain(ctx.Err())
		}
		return store.BeginAnswer{}, err
	}
	return d.Database.Begin(ctx, in)
}

func (d *delayedDatabase) ReleaseIdempotencyKey(ctx context.Context, key [32]byte, send uuid.UUID, forget bool) error {
	if err := await(ctx, d.release); err != nil {
		return err
	}
	return d.Database.ReleaseIdempotencyKey(ctx, key, send, forget)
}

// A send is answered before a proxy asks another replica, however long each step takes, even if the
// client has left. A send that is not decided by then counts nowhere, and its key is free for the
// other replica, if it could be released in time.
func TestASendHasOneDeadline(t *testing.T) {
	const tick = time.Millisecond
	type answered struct {
		after             time.Duration
		err, errElsewhere error // errElsewhere is the error of the same request at another replica
	}
	type aCase struct {
		delayedDatabase
		left bool // the client leaves after 3 s
		want answered
	}
	vtest.EachInBubble(t, map[string]aCase{
		"in time": {delayedDatabase: delayedDatabase{claim: 2 * time.Second, begin: 4*time.Second - tick},
			want: answered{after: 6*time.Second - tick}},
		"a late claim": {delayedDatabase: delayedDatabase{claim: time.Minute}, want: answered{after: 5 * time.Second, err: fault.Unavailable}},
		"too late together": {
			delayedDatabase: delayedDatabase{claim: 2 * time.Second, begin: 4*time.Second + tick},
			want:            answered{after: 6 * time.Second, err: fault.Unavailable},
		},
		"a client that left": {
			delayedDatabase: delayedDatabase{claim: 2 * time.Second, begin: 4*time.Second + tick}, left: true,
			want: answered{after: 6 * time.Second, err: fault.Unavailable},
		},
		"may have counted": {
			delayedDatabase: delayedDatabase{claim: 2 * time.Second, begin: time.Minute, uncertain: true},
			want:            answered{after: 6 * time.Second, err: fault.Uncertain},
		},
		"a release just in time": {
			delayedDatabase: delayedDatabase{claim: 2 * time.Second, begin: time.Minute, release: 1500*time.Millisecond - tick},
			want:            answered{after: 7500*time.Millisecond - tick, err: fault.Unavailable},
		},
		"no release": {
			delayedDatabase: delayedDatabase{claim: 2 * time.Second, begin: time.Minute, release: time.Minute},
			want:            answered{after: 7500 * time.Millisecond, err: fault.Unavailable, errElsewhere: verification.ErrKeyInProgress},
		},
	}, nil, func(r *vtest.Rig, c aCase) {
		c.Database = r.Store
		slow := r.ReplicaOn(&c.delayedDatabase, r.MailServer, r.Carrier)
		ctx, leave := context.WithCancel(r.Context())
		defer leave()
		if c.left {
			time.AfterFunc(3*time.Second, leave)
		}
		began := time.Now()
		_, err := slow.Send(ctx, keyed)
		r.Want("answered after", time.Since(began), c.want.after)
		r.WantError(err, c.want.err)
		r.WantError(r.SendError(keyed), c.want.errElsewhere)
	})
}
