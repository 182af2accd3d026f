package sqlite

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/store/gate"
	"sendcode/internal/store/sqldb"
)

// Begin implements Outbox.
func (s *DB) Begin(ctx context.Context, intent store.Intent) (begun store.Begun, err error) {
	in, err := store.Checked(intent)
	if err != nil {
		return store.Begun{}, err
	}
	err = s.Write(ctx, func(q sqldb.Tx) error {
		begun, err = begin(q, in)
		return err
	})
	if err != nil {
		return store.Begun{}, err
	}
	return begun, nil
}

// begin decides an intent and writes its rows if it is admitted. If the ID of its send has a row already, it decides nothing and
// returns gate.Repeated. Errors: ErrDrift, or ErrBadRequest if that row is a refusal or another recipient's.
func begin(q sqldb.Tx, in store.Intent) (store.Begun, error) {
	earlier, err := sendOf(q, in.Send.ID)
	if err == nil {
		v, err := verificationOf(q, earlier.VerificationID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return store.Begun{}, err
		}
		return gate.Repeated(in, earlier, v)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return store.Begun{}, err
	}
	if err := store.Drifted(in.Send.ID, q.Now); err != nil {
		return store.Begun{}, err
	}
	has, err := readFacts(q, in)
	if err != nil {
		return store.Begun{}, err
	}
	r := gate.Decide(in, q.Now, has)
	if !r.Admitted {
		return r.Begun, nil
	}
	return r.Begun, writeAdmitted(q, r)
}

// readFacts reads what the gate decides an intent by.
func readFacts(q sqldb.Tx, in store.Intent) (has gate.Facts, err error) {
	if has.Past, err = pastSends(q, in); err != nil {
		return has, err
	}
	rejected := sqldb.RejectedArgs(in.Send.App, in.Send.Channel, in.Send.Recipient)
	rejected["after"] = q.Now.Add(-in.Rejections.Window.Truncate(time.Microsecond))
	if has.Rejections, err = sqldb.All(q, sqldb.RejectionFields, sqldb.RejectedSQL, rejected); err != nil {
		return has, err
	}
	if has.Candidates, err = candidates(q, in); err != nil {
		return has, err
	}
	if has.Tried, err = q.TriedOfRecipient(in.Verification, q.Now); err != nil {
		return has, err
	}
	has.Suppression, err = activeSuppression(q, in)
	return has, err
}

// writeAdmitted writes the rows of an admitted send: the verification, the send and its flight.
func writeAdmitted(q sqldb.Tx, r gate.Decision) (err error) {
	if r.Joined {
		_, err = change(q, `UPDATE verifications SET sends = $1 WHERE id = $2`, r.Verification.Sends, r.Verification.ID)
	} else {
		_, err = change(q, insertVerification, sqldb.VerificationTable.Values(sqldb.AsSend, &r.Verification)...)
	}
	if err != nil {
		return err
	}
	if _, err := change(q, insertSend, sqldb.SendTable.Values(sqldb.AsSend, &r.Send)...); err != nil {
		return err
	}
	_, err = change(q, `INSERT INTO flights (id, due_at, attempt, queued, channel, expires_at) VALUES ($1, $2, 1, 0, $3, $4)`,
		r.Send.ID, r.Send.DueAt.UnixMicro(), r.Send.Channel, r.Verification.ExpiresAt.UnixMicro())
	return err
}

var (
	insertVerification = sqldb.VerificationTable.InsertOne(sqldb.AsSend)
	insertSend         = sqldb.SendTable.InsertOne(sqldb.AsSend)
	insertRefusal      = sqldb.SendTable.InsertOne(sqldb.AsBlock) + sqldb.AddRefusalSQL
)

// pastSends returns the sends of the intent's bucket that may count, newest first.
func pastSends(q sqldb.Tx, in store.Intent) ([]gate.CountedSend, error) {
	if len(in.Rules) == 0 {
		return nil, nil
	}
	s := in.Send
	args := []any{s.Recipient[:], q.Now.Add(-gate.MaxRowAge(in)).UnixMicro(), s.App, s.Channel}
	for _, p := range in.Purposes {
		args = append(args, p)
	}
	return rows(q, sqldb.PastFields, pastSQL+`(?`+strings.Repeat(", ?", len(in.Purposes)-1)+`) ORDER BY s.logged_at DESC`, args...)
}

const pastSQL = `SELECT s.id, s.clock, s.taken_at, s.logged_at FROM sends s
WHERE s.recipient = ? AND s.number > 0 AND s.logged_at > ? AND s.counts = 1 AND s.app = ? AND s.channel = ? AND s.purpose IN `

// candidates returns the verifications that the intent may join, by its ID or its holder. The gate chooses among them.
func candidates(q sqldb.Tx, in store.Intent) ([]store.Verification, error) {
	s := in.Send
	switch {
	case in.Join != "":
		return rows(q, sqldb.VerificationFields, verificationSQL, in.Join)
	case in.Verification.Holder != "":
		return rows(q, sqldb.VerificationFields, heldSQL, s.Recipient[:], q.Now.Add(-gate.MaxStale).UnixMicro(), s.App, s.Channel, s.Purpose)
	}
	return nil, nil
}

var verificationSQL = `SELECT ` + sqldb.VerificationColumns + ` FROM verifications v WHERE v.id = ?`

// heldSQL finds the verifications of a recipient by its sends of the time that one may live.
var heldSQL = `SELECT ` + sqldb.VerificationColumns + ` FROM verifications v WHERE v.id IN (
    SELECT s.verification_id FROM sends s WHERE s.recipient = ? AND s.number > 0 AND s.logged_at > ? AND s.app = ? AND s.channel = ?
      AND s.purpose = ?)`

// activeSuppression returns the ID of the suppression that applies to the intent's address, the one that lasts longest; Nil: none.
func activeSuppression(q sqldb.Tx, in store.Intent) (uuid.UUID, error) {
	id, err := first(q, sqldb.OneColumn[uuid.UUID], `
SELECT id FROM suppressions
WHERE lifted_at IS NULL AND address = $1 AND channel = $2 AND until > $3 AND app IN ('', $4) ORDER BY until DESC, id DESC LIMIT 1`,
		in.Address[:], in.Send.Channel, q.Now.UnixMicro(), in.Send.App)
	if errors.Is(err, store.ErrNotFound) {
		return uuid.Nil, nil
	}
	return id, err
}

func sendOf(q sqldb.Tx, id uuid.UUID) (store.Send, error) {
	return first(q, sqldb.SendFields, `SELECT `+sqldb.SendColumns+` FROM sends s WHERE s.id = $1`, id)
}

func verificationOf(q sqldb.Tx, id string) (store.Verification, error) {
	return first(q, sqldb.VerificationFields, verificationSQL, id)
}

// Refused implements Refusals.
func (s *DB) Refused(ctx context.Context, refusals []store.Send) error {
	list := store.Merged(refusals)
	return s.Write(ctx, func(q sqldb.Tx) error {
		for i := range list {
			list[i].SetRefusedAt(q.Now)
			if _, err := change(q, insertRefusal, sqldb.SendTable.Values(sqldb.AsBlock, &list[i])...); err != nil {
				return err
			}
		}
		return nil
	})
}

// Attempt implements Verifications.
func (s *DB) Attempt(ctx context.Context, id string) (v store.Verification, counted bool, at time.Time, err error) {
	v, err = sqldb.Writing(ctx, &s.DB, func(q sqldb.Tx) (store.Verification, error) {
		at = q.Now
		v, err := verificationOf(q, id)
		if err != nil || !gate.Pending(v, q.Now) {
			return v, err
		}
		out, err := q.LockedOut(v, q.Now)
		if err != nil || out.Wait > 0 {
			return v, err
		}
		v.Attempts++
		counted, err = change(q, `UPDATE verifications SET attempts = $1 WHERE id = $2`, v.Attempts, id)
		return v, err
	})
	return v, counted && err == nil, at, err
}
