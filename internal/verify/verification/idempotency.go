package verification

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/limit/bucketnames"
	"sendcode/internal/store"
)

// A request with an idempotency key runs once. The key is claimed in the database before the gates
// decide. The claim fixes the ID of the send, by which both gates recognize the send. A refusal
// releases the key, so that the caller may try again after the wait. An outage releases it too, if
// the database certainly has no row and can take the release. After an outage that may have written
// the send, the next request with the key continues with the same send ID.

// IdempotencyKeyLife is how long an idempotency key is kept.
const IdempotencyKeyLife = 24 * time.Hour

// claimLease is how long a claim keeps other requests with the key out: they wait.
// It is longer than both gates may take together.
func claimLease() time.Duration { return 3 * store.CallTimeout }

// A repetition waits for the answer of the first request with its key, within its own deadline. In
// the process of that request it waits in keyTurns: without a slot, a place in the admission or a
// statement. In another process the first repetition claims again and again, and all others wait for
// it. Beyond these bounds a repetition gets ErrKeyInProgress at once.
const (
	maxWaitingPerKey = 32   // requests of this process that wait for one key
	maxWaiting       = 1024 // for all keys
	minClaimInterval = 100 * time.Millisecond
	maxClaimInterval = time.Second
)

// keyTurns lets one request of this process at a time work on an idempotency key.
type keyTurns struct {
	mu      sync.Mutex
	turns   map[turnName]*keyTurn
	waiting int
}

// turnName has the hashes of a key and of a request's content, so that a request with the same key and
// other content delays no repetition.
type turnName struct{ key, fingerprint [32]byte }

type keyTurn struct {
	waiting  int
	ended    chan struct{}
	admitted bool // set before ended is closed
}

// take waits for the turn of this name, and takes it. If a request that had the turn was admitted, take
// returns without it: a repetition needs none. The caller must call end; only the first call counts. Error:
// ErrKeyInProgress after the end of ctx or deciding, or if too many requests wait.
func (t *keyTurns) take(ctx, deciding context.Context, name turnName) (end func(admitted bool), err error) {
	for {
		t.mu.Lock()
		turn, taken := t.turns[name]
		if !taken {
			if t.turns == nil {
				t.turns = map[turnName]*keyTurn{}
			}
			turn = &keyTurn{ended: make(chan struct{})}
			t.turns[name] = turn
			t.mu.Unlock()
			var once sync.Once
			return func(admitted bool) {
				once.Do(func() {
					t.mu.Lock()
					defer t.mu.Unlock()
					delete(t.turns, name)
					turn.admitted = admitted
					close(turn.ended)
				})
			}, nil
		}
		full := turn.waiting >= maxWaitingPerKey
		turn.waiting++
		t.mu.Unlock()
		ended := !full && t.wait(ctx, deciding, turn.ended)
		t.mu.Lock()
		turn.waiting--
		t.mu.Unlock()
		if !ended {
			return nil, ErrKeyInProgress
		}
		if turn.admitted {
			return func(bool) {}, nil
		}
	}
}

// pause waits for d. False: ctx or deciding ended, or too many requests wait.
func (t *keyTurns) pause(ctx, deciding context.Context, d time.Duration) bool {
	over := make(chan struct{})
	defer time.AfterFunc(d, func() { close(over) }).Stop()
	return t.wait(ctx, deciding, over)
}

// wait waits until over is closed. False: ctx or deciding ended, or too many requests wait.
func (t *keyTurns) wait(ctx, deciding context.Context, over <-chan struct{}) bool {
	t.mu.Lock()
	full := t.waiting >= maxWaiting
	if !full {
		t.waiting++
	}
	t.mu.Unlock()
	if full {
		return false
	}
	defer func() {
		t.mu.Lock()
		t.waiting--
		t.mu.Unlock()
	}()
	select {
	case <-over:
		return true
	case <-ctx.Done():
	case <-deciding.Done():
	}
	return false
}

// keyClaim is the send ID that a request uses, and its claimed idempotency key if it has one.
type keyClaim struct {
	send  uuid.UUID
	key   [32]byte
	keyed bool
	again bool                          // an earlier request with the key has this send ID, and may have written the send
	done  *store.IdempotencyClaimAnswer // of an earlier request with the key, which was admitted; nil: none
}

// claimKey makes the ID of a send and claims the request's idempotency key, if it has one. ctx must
// not end if the client hangs up. Errors: ErrKeyInProgress, ErrKeyReused, fault.Unavailable.
func (s *Service) claimKey(ctx context.Context, a parsedRequest) (keyClaim, error) {
	id, err := s.newID()
	if err != nil || a.IdempotencyKey == "" {
		return keyClaim{send: id}, err
	}
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout) // the deadline of a send is later
	defer cancel()
	c := keyClaim{send: id, key: s.idempotencyKeyHash(sendKeyLabel, a.Caller), keyed: true}
	got, err := s.Store.ClaimIdempotencyKey(ctx,
		store.IdempotencyClaim{Key: c.key, Fingerprint: s.fingerprint(a), SendID: id, Lease: claimLease(), Life: IdempotencyKeyLife})
	if err != nil {
		return c, withoutUncertain(err)
	}
	switch got.State {
	case store.IdempotencyClaimBusy:
		return c, ErrKeyInProgress
	case store.IdempotencyClaimMismatched:
		return c, ErrKeyReused
	case store.IdempotencyClaimDone:
		c.done = &got
	default:
		c.send, c.again = got.SendID, got.SendID != id
	}
	return c, nil
}

// withoutUncertain returns the error of a claim as fault.Unavailable: only the claim is uncertain, and nothing was counted.
func withoutUncertain(err error) error {
	if errors.Is(err, fault.Uncertain) {
		return fault.Unavailable.Wrap(errors.New(err.Error()))
	}
	return err
}

// releaseUnadmittedKey releases the key of a request that was not admitted, before a deadline. If the release
// fails, the key stays bound to this request and send ID, and the next request with the key can
// continue after the lease.
func (s *Service) releaseUnadmittedKey(ctx context.Context, deadline time.Time, c keyClaim, answer Answer, err error) {
	if !c.keyed || answer.Admitted {
		return
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if err := s.Store.ReleaseIdempotencyKey(ctx, c.key, c.send, !errors.Is(err, fault.Uncertain)); err != nil {
		s.Logger.WarnContext(ctx, "could not release idempotency key: its next request waits for the lease",
			"send", c.send,
			"error", err, logs.SeeDatabaseAway)
	}
}

// replay repeats the answer of the first request with the key, but with the present states of the
// rules. The send and the verification are as done has them if a.Wait is set, else as they were at
// admission. Error: fault.Unavailable.
func (s *Service) replay(ctx context.Context, a parsedRequest, done store.IdempotencyClaimAnswer) (Answer, error) {
	d, err := s.peek(ctx, a.subject)
	if err != nil {
		return Answer{}, err
	}
	v, send := done.Verification, done.Send
	if a.Wait == 0 {
		v, send = asAdmitted(v, send)
	}
	view := s.view(v, send, send.LoggedAt, recipient.Hash{})
	view.Now = done.Now
	told := s.redact(ctx, a.subject, d, a.Caller, StateOf(done.Verification, done.Now), done.Verification.IDsWithReplaced())
	return Answer{Admitted: true, Replayed: true, View: view, Quota: told, AsksNext: s.asksNext(a.subject, d.Decision)}, nil
}

// asAdmitted returns the verification and the send as they were when the send was admitted.
func asAdmitted(v store.Verification, s store.Send) (store.Verification, store.Send) {
	v.ApprovedAt, v.CanceledAt = time.Time{}, time.Time{}
	if s.Number == 1 {
		v.Attempts = 0
	}
	s.Status, s.Reason, s.FinishedAt, s.Counts = store.Queued, "", time.Time{}, true
	return v, s
}

// idempotencyKeyHash hashes the idempotency key together with the app and the kind of caller, so
// that two apps, or a browser and a back end, never share a key. If a browser's key can be guessed,
// its network is hashed too. Else a guess from another network would get the answer, and with it
// the verification.
func (s *Service) idempotencyKeyHash(label string, c Caller) [32]byte {
	kind := "secret"
	switch {
	case c.Kind == BackEnd:
	case isRandomHex(c.IdempotencyKey):
		kind = "browser"
	default:
		kind = "browser of " + bucketnames.ClientPrefix(c.IP)
	}
	return s.Vault.KeyedHash(label, c.App, kind, c.IdempotencyKey)
}

// The labels of idempotencyKeyHash: a send, a check and a report never share a key.
const (
	sendKeyLabel   = "idempotency key"
	checkKeyLabel  = "check key"
	reportKeyLabel = "report key"
)

// fingerprint hashes the content of a request, to tell a repetition from another request with the
// same key. It ignores the client's address, which may change at a retry (see idempotencyKeyHash), and HumanCheck, which a
// request has only after it was asked for one.
func (s *Service) fingerprint(a parsedRequest) [32]byte {
	parts := []string{
		string(a.to.Channel()), a.to.Address(), a.subject.Purpose.Name, cmp.Or(a.Locale, a.Languages),
		a.Session, a.Resend,
	}
	for name, text := range a.Labels.All() {
		if text != "" { // a label that a later version adds leaves earlier fingerprints as they are
			parts = append(parts, name, text)
		}
	}
	if a.Stranger {
		parts = append(parts, "stranger")
	}
	if a.Code != "" { // safe: the whole hash is keyed with the index key
		parts = append(parts, "code", a.Code, a.TTL.String())
	}
	return s.Vault.KeyedHash("idempotency request", parts...)
}

// isRandomHex reports whether an Idempotency-Key looks random: only hexadecimal digits, an even
// number of at least 32, with letters and at least 8 different digits. Words, counters and times
// never look like that. In doubt it returns false: base64 may consist of words, and a UUID with
// dashes may be made from a time.
func isRandomHex(key string) bool {
	key = strings.ToLower(key)
	different := slices.Compact(slices.Sorted(slices.Values([]byte(key))))
	_, err := hex.DecodeString(key)
	return err == nil && len(key) >= 32 && len(different) >= 8 && strings.ContainsAny(key, "abcdef")
}
