package verification_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/limit/admission"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

type claimCounter struct {
	delayedDatabase
	claims atomic.Int32
}

func (c *claimCounter) ClaimIdempotencyKey(ctx context.Context, claim store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error) {
	c.claims.Add(1)
	return c.delayedDatabase.ClaimIdempotencyKey(ctx, claim)
}

// A repeated request waits until its own deadline for the first request's answer. In the same
// process the answer wakes it at once; in another process it learns the answer within a second.
func TestSendRepetitionWaitsForTheFirst(t *testing.T) {
	type row struct {
		begin      time.Duration // how long the first request waits for the database's answer
		err        error         // error of the first request
		same       bool          // the repetition goes to the same process
		asked      time.Duration // when the repetition comes
		from, upTo time.Duration // bounds of the time of its answer
		claims     int32         // the greatest number of claims by the repetition
	}
	vtest.EachInBubble(t, map[string]row{
		"the same process": {
			begin: 3 * time.Second, same: true, asked: time.Second, from: 3 * time.Second, upTo: 3 * time.Second,
			claims: 1,
		},
		"another process": {begin: 3 * time.Second, asked: time.Second, from: 3 * time.Second, upTo: 4 * time.Second, claims: 7},
		"a slow database": {
			begin: 5*time.Second - 1, asked: 4 * time.Second, from: 5*time.Second - 1, upTo: 6 * time.Second,
			claims: 5,
		},
		"the first fails": {
			begin: time.Minute, err: fault.Unavailable, same: true, asked: time.Second, from: 5 * time.Second,
			upTo: 5 * time.Second, claims: 1,
		},
		"the first fails far": {
			begin: time.Minute, err: fault.Unavailable, asked: time.Second, from: 5 * time.Second,
			upTo: 6 * time.Second, claims: 9,
		},
	}, vtest.WithRules(quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 9, Window: time.Hour}), func(r *vtest.Rig, c row) {
		slowDB := &claimCounter{delayedDatabase: delayedDatabase{Database: r.Store, begin: c.begin}}
		fastDB := &claimCounter{delayedDatabase: delayedDatabase{Database: r.Store}}
		first := r.ReplicaOn(slowDB, r.MailServer, r.Carrier)
		second := r.ReplicaOn(fastDB, r.MailServer, r.Carrier)
		if c.same {
			second, fastDB = first, slowDB
		}
		began := time.Now()
		ended := make(chan error, 1)
		go func() { _, err := first.Send(r.Context(), keyed); ended <- err }()
		r.Sleep(c.asked)
		before := fastDB.claims.Load()
		slowDB.begin = 0
		a, err := second.Send(r.Context(), keyed)
		took := time.Since(began)
		r.WantError(<-ended, c.err)
		r.NoError(err) // after a first request that failed, the repetition sends the code itself
		if took < c.from || took > c.upTo {
			r.Errorf("answered after %v", took)
		}
		r.Want("replayed", a.Replayed, c.err == nil)
		if n := fastDB.claims.Load() - before; n > c.claims {
			r.Errorf("%d claims", n)
		}
		r.Sleep(20 * time.Second)
		r.WantMails(1)
	})
}

// A repetition does not wait for the outcome for which the first request waits.
func TestSendRepetitionDoesNotWaitForTheOutcome(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.MailServer.Delay = 15 * time.Second
		waiting := keyed
		waiting.Wait = verification.MaxWait
		first := make(chan error, 1)
		go func() { _, err := r.Svc.Send(r.Context(), waiting); first <- err }()
		r.Sleep(time.Second)
		began := time.Now()
		a := r.AskAt(r.Svc, keyed, true)
		vtest.Equal(r, "replayed", a.Replayed, true)
		vtest.Equal(r, "after", time.Since(began), 0)
		r.NoError(<-first)
		r.Want("the first one after", time.Since(began), 14*time.Second)
	})
}

// At its deadline, a repeated request gets ErrKeyInProgress. If the caller's context ends earlier,
// the request gets the error then.
func TestSendRepetitionHasADeadline(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		claim := delayedDatabase{Database: r.Store, begin: time.Minute, release: time.Minute}
		first := r.ReplicaOn(&claim, r.MailServer, r.Carrier)
		r.WantError(vtest.Err(first.Send(r.Context(), keyed)), fault.Unavailable) // the lease of the first request still lasts
		began := time.Now()
		r.WantError(r.SendError(keyed), verification.ErrKeyInProgress)
		r.Want("after", time.Since(began), 6*time.Second)
		began = time.Now()
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		r.WantError(vtest.Err(r.Svc.Send(ctx, keyed)), verification.ErrKeyInProgress)
		r.Want("of a caller with a deadline after", time.Since(began), time.Second)
	})
}

// A flood of repeated requests takes at most one place, and makes few statements, in this process
// and in another one. Other requests for the recipient are answered at once. Repeated requests
// beyond maxWaitingPerKey are refused at once.
func TestSendFloodOfRepetitions(t *testing.T) {
	for name, same := range map[string]bool{"the same process": true, "another process": false} {
		t.Run(name, func(t *testing.T) {
			vtest.InBubble(t, func(r *vtest.Rig) {
				db := &claimCounter{delayedDatabase: delayedDatabase{Database: r.Store, begin: 4 * time.Second}}
				first := r.ReplicaOn(db, r.MailServer, r.Carrier)
				second := first
				if !same {
					db = &claimCounter{delayedDatabase: delayedDatabase{Database: r.Store}}
					second = r.ReplicaOn(db, r.MailServer, r.Carrier)
				}
				go func() { _, _ = first.Send(r.Context(), keyed) }()
				r.Sleep(time.Millisecond)
				began, before := time.Now(), db.claims.Load()
				var flood sync.WaitGroup
				var replayed, busy atomic.Int32
				for range 10 * admission.MaxPerRecipient {
					flood.Go(func() {
						switch a, err := second.Send(r.Context(), keyed); {
						case err == nil && a.Replayed:
							replayed.Add(1)
						case err == verification.ErrKeyInProgress && time.Since(began) < time.Second:
							busy.Add(1)
						default:
							r.Errorf("%+v, %v after %v", a.Replayed, err, time.Since(began))
						}
					})
				}
				r.Sleep(3 * time.Second)
				if n := db.claims.Load() - before; n > 7 {
					r.Errorf("%d claims", n)
				}
				r.Want("under way", second.AdmissionStats()["sends"].UnderWay["known"] <= 1, true)
				asked := time.Now()
				a, err := second.Send(r.Context(), vtest.AskFor(vtest.Ana))
				r.NoError(err)
				vtest.Equal(r, "another request: admitted", a.Admitted, false)
				vtest.Equal(r, "another request: after", time.Since(asked), 0)
				flood.Wait()
				r.Want("served and refused", int(replayed.Load()+busy.Load()), 10*admission.MaxPerRecipient)
				r.Want("served", replayed.Load() >= admission.MaxPerRecipient, true)
				r.Sleep(20 * time.Second)
				r.WantMails(1)
			})
		})
	}
}
