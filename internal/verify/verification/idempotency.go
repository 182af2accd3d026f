package verification

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/store"
)

// A request with an idempotency key runs once. The database claims the key before the gates decide.
// The claim fixes the ID of the send, by which both gates recognize it. A refusal deletes the
// claim, so that the caller can try again after the wait. An outage deletes the claim only if it is
// certain that no row was written. If the row may have been written, only the claim's lease ends,
// and the next request with the key goes on with the same send ID.

// claimKey makes the ID of a send and claims the request's idempotency key. If an earlier request
// with the key was admitted, claimKey repeats its answer. Errors: ErrKeyInProgress, ErrKeyReused,
// fault.Unavailable.
func (s *sendService) claimKey(ctx context.Context, r *parsedRequest) (send claimedSend, replay *Answer, err error) {
	send.parsedRequest = r
	if send.id, err = s.newID(); err != nil || r.IdempotencyKey == "" {
		return send, nil, err
	}
	key := s.idempotencyKeyHash(sendKeyLabel, r.Caller)
	got, err := s.claim(ctx, store.IdempotencyClaim{Key: key, Fingerprint: s.fingerprint(r), SendID: send.id})
	switch {
	case err != nil:
		return send, nil, err
	case got.State == store.IdempotencyClaimBusy:
		return send, nil, ErrKeyInProgress
	case got.State == store.IdempotencyClaimMismatched:
		return send, nil, ErrKeyReused
	case got.State == store.IdempotencyClaimDone:
		replay, err = s.replay(ctx, r, got)
		return send, replay, err
	}
	send.claims = [][32]byte{key}
	send.id, send.mayBeWritten = got.SendID, got.SendID != send.id
	return send, nil, nil
}

// Error of claim: fault.Unavailable, even if the claim may have been made. A claim counts no send
// toward a limit, so the caller can simply repeat the request.
func (s *sendService) claim(ctx context.Context, c store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout) // the deadline of a send is later
	defer cancel()
	got, err := s.Store.ClaimIdempotencyKey(ctx, c)
	if errors.Is(err, fault.Uncertain) {
		err = fault.Unavailable.Wrap(errors.New(err.Error()))
	}
	return got, err
}

// releaseClaims releases the key of a request that ended with an answer or with err, and its pass.
// It releases nothing if the send is written: the request ended with neither, or its answer says
// that it was admitted. If a release fails, the key stays bound to this request and its send ID
// until the claim's lease ends. Then the next request with the key can go on.
func (s *sendService) releaseClaims(client, deciding context.Context, send claimedSend, early *Answer, err error) {
	if err == nil && (early == nil || early.Admitted) {
		return
	}
	by := answerBy(client, deciding)
	if errors.Is(err, ErrKeptBack) { // the row is written, so no lease ends the claim, and the deadline may have passed
		by = time.Now().Add(releaseTimeout())
	}
	for _, key := range send.claims {
		ctx, cancel := context.WithDeadline(context.WithoutCancel(client), by)
		defer cancel()
		if err := s.Store.ReleaseIdempotencyKey(ctx, key, send.id, !errors.Is(err, fault.Uncertain)); err != nil {
			s.Logger.WarnContext(ctx, "could not release idempotency key: its next request waits for the lease",
				"send", send.id,
				"error", err, logs.SeeDatabaseAway)
		}
	}
}

// replay repeats the answer of the first request with the key, with the current states of the
// rules. If r.Wait is set, the answer shows the send and the verification as they are now.
// Otherwise it shows them as they were when the send was admitted. Error: fault.Unavailable.
func (s *sendService) replay(ctx context.Context, r *parsedRequest, done store.IdempotencyClaimAnswer) (*Answer, error) {
	current, err := s.peek(ctx, r.plan)
	if err != nil {
		return nil, err
	}
	v, send := done.Verification, done.Send
	if r.Wait == 0 {
		v, send = asAdmitted(v, send)
	}
	view := s.view(v, send, send.LoggedAt, recipient.Hash{})
	view.Now = done.Now
	visible := s.redact(ctx, r.plan, current, r.Caller, StateOf(done.Verification, done.Now), done.Verification.IDsWithReplaced())
	return &Answer{
		Admitted: true, Replayed: true, View: view, Quota: visible,
		AsksNext: s.asksNext(r.Kind, r.plan, current.Decision),
	}, nil
}

func asAdmitted(v store.Verification, s store.Send) (store.Verification, store.Send) {
	v.ApprovedAt, v.CanceledAt, v.Labels = time.Time{}, time.Time{}, s.Labels
	if s.Number == 1 {
		v.Attempts = 0
	}
	s.Status, s.Reason, s.FinishedAt, s.Counts = store.Queued, "", time.Time{}, true
	return v, s
}

// idempotencyKeyHash hashes the app and the kind of caller, too, so that two apps, or a browser and
// a back end, never share a key. If a browser's key can be guessed, its network is hashed, too:
// otherwise a guess from another network would get the answer, and with it the verification.
func (s *readService) idempotencyKeyHash(label string, c Caller) [32]byte {
	kind := "secret"
	switch {
	case c.Kind == BackEnd:
	case isRandomHex(c.IdempotencyKey):
		kind = "browser"
	default:
		kind = "browser of " + buckets.ClientPrefix(c.IP)
	}
	return s.Vault.KeyedHash(label, c.App, kind, c.IdempotencyKey)
}

// The labels keep the keys of sends, checks and reports apart.
const (
	sendKeyLabel   = "idempotency key"
	checkKeyLabel  = "check key"
	reportKeyLabel = "report key"
)

// fingerprint hashes the content of a request, to tell a repeated request from another request with
// the same key. It leaves out the client's address, which may change before a retry (see
// idempotencyKeyHash), and HumanCheck, which a caller sets only after an answer has asked for it.
func (s *sendService) fingerprint(r *parsedRequest) [32]byte {
	parts := []string{
		string(r.to.Channel()), r.to.Address(), r.plan.Purpose.Name, cmp.Or(r.Locale, r.Languages),
		r.Session, r.Resend,
	}
	for name, text := range r.Labels.All() {
		if text != "" { // so an empty label of a later version leaves earlier fingerprints unchanged
			parts = append(parts, name, text)
		}
	}
	switch { // what the request itself says, because the setting of its API key may change before a retry
	case r.Trust == SaidStranger:
		parts = append(parts, "stranger")
	case r.Trust == SaidKnown && r.Resend == "":
		parts = append(parts, "known")
	}
	if r.Details != "" {
		parts = append(parts, "details", r.Details)
	}
	if r.Code != "" { // safe: the whole hash is keyed with the index key
		parts = append(parts, "code", r.Code, r.TTL.String())
	}
	return s.Vault.KeyedHash("idempotency request", parts...)
}

// isRandomHex reports whether an Idempotency-Key looks random: only hexadecimal digits, at least
// 32, an even number, with letters and at least 8 different digits. Words, counters and times never
// look like that. Base64 may consist of words, and a UUID with dashes may be made from a time, so
// neither counts as random.
func isRandomHex(key string) bool {
	key = strings.ToLower(key)
	different := slices.Compact(slices.Sorted(slices.Values([]byte(key))))
	_, err := hex.DecodeString(key)
	return err == nil && len(key) >= 32 && len(different) >= 8 && strings.ContainsAny(key, "abcdef")
}
