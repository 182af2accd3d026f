package sqldb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlgen"
)

var (
	sendSQL         = `SELECT ` + SendColumns + ` FROM sends s`
	verificationSQL = `SELECT ` + VerificationColumns + ` FROM verifications v WHERE v.id = @id`
)

// Send returns fault.NotFound if no send has this ID.
func (t Tx) Send(id uuid.UUID) (store.Send, error) {
	return queryFirst(t, sendFields, sendSQL+` WHERE s.id = @id`, Args{"id": id})
}

// Verification returns fault.NotFound if no verification has this ID.
func (t Tx) Verification(id string) (store.Verification, error) {
	return queryFirst(t, VerificationFields, verificationSQL, Args{"id": id})
}

// withClockColumn scans the first column, @now, into now, and the others into fields.
func withClockColumn[T any](now *time.Time, fields func(*T) []any) func(*T) []any {
	return func(x *T) []any { return append([]any{sqlgen.ScannerFor(now)}, fields(x)...) }
}

// Sends returns rows sorted by LoggedAt and then ID, newest first.
func (db *DB) Sends(ctx context.Context, filter store.Filter) ([]store.SendOrRefusal, error) {
	if !filter.MayMatchAny() {
		return nil, nil
	}
	query, args := db.SendsQuery(SendFilter{filter})
	rows, err := ReadAll(ctx, db, "Sends", sendOrRefusalFields, query, args)
	if filter.After != nil { // such a query reads the oldest rows first
		slices.Reverse(rows)
	}
	return rows, err
}

// SendsByID returns the rows in any order, without those of unknown IDs. Callers must pass at most
// 1,000 IDs. now is on the database's clock; zero if nothing was found.
func (db *DB) SendsByID(ctx context.Context, ids []uuid.UUID) (all []store.SendOrRefusal, now time.Time, err error) {
	if len(ids) == 0 {
		return nil, now, nil
	}
	all, err = ReadAll(ctx, db, "SendsByID", withClockColumn(&now, sendOrRefusalFields),
		`SELECT @now, s.* FROM (`+sendsAndRefusalsSQL(`s.id `+db.Dialect.inList("ids")+` AND s.id BETWEEN @first AND @last`)+`) s`,
		Args{"ids": ids, "first": slices.MinFunc(ids, compareIDs), "last": slices.MaxFunc(ids, compareIDs)})
	return all, now, err
}

// VerificationsByID is like SendsByID. It reads nothing if one ID is not valid text.
func (db *DB) VerificationsByID(ctx context.Context, ids []string) (all []store.Verification, now time.Time, err error) {
	if len(ids) == 0 || !store.AreValidTexts(ids...) {
		return nil, now, nil
	}
	all, err = readAllShared(ctx, db, "VerificationsByID", withClockColumn(&now, VerificationFields),
		`SELECT @now, `+VerificationColumns+` FROM verifications v WHERE v.id `+db.Dialect.inList("ids"), Args{"ids": ids})
	return all, now, err
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

// SendsBySupportReference returns rows sorted by ID; none if the text is no reference.
func (db *DB) SendsBySupportReference(ctx context.Context, support string) ([]store.SendOrRefusal, error) {
	r, ok := store.ParseSupportReference(support)
	if !ok {
		return nil, nil
	}
	from, to := r.IDRange()
	rows, err := ReadAll(ctx, db, "SendsBySupportReference", sendOrRefusalFields,
		`SELECT s.* FROM (`+sendsAndRefusalsSQL(`s.id >= @from AND s.id < @to`)+`) s ORDER BY s.id LIMIT @most`,
		Args{"from": from, "to": to, "most": store.MaxSupportSearchRows})
	return r.FilterInPlace(rows), err
}

// SendDetails returns a send or refusal and the rows that explain it, or fault.NotFound if neither
// has this ID.
func (db *DB) SendDetails(ctx context.Context, id uuid.UUID) (store.SendDetails, error) {
	return ReadWithResult(ctx, db, "SendDetails", func(q Tx) (store.SendDetails, error) { return q.sendDetails(id) })
}

func (t Tx) sendDetails(id uuid.UUID) (details store.SendDetails, err error) {
	details.Send, err = queryFirst(t, withClockColumn(&details.Now, sendOrRefusalFields),
		`SELECT @now, s.* FROM (`+sendsAndRefusalsSQL(`s.id = @id`)+`) s`, Args{"id": id})
	if err != nil {
		return details, err
	}
	if details.Suppressions, err = t.suppressions(store.SuppressionIDs(details.Send.Send)); err != nil {
		return details, err
	}
	if details.Send.MayBeStoppedByPause() {
		pauses, err := QueryAll(t, prefixPauseTable.Destinations, prefixPauseSQL+pauseAtSendEndSQL,
			Args{
				"app": details.Send.App, "prefix": details.Send.Prefix, "at": details.Send.FinishedAt,
				"verification": details.Send.VerificationID,
			})
		if err != nil {
			return details, err
		}
		if len(pauses) > 0 {
			details.Pause = &pauses[0]
		}
	}
	details.Events, err = QueryAll(t, providerEventTable.Destinations, providerEventsSQL, Args{"id": id})
	if err != nil || details.Send.VerificationID == "" {
		return details, err
	}
	v, err := t.Verification(details.Send.VerificationID)
	if errors.Is(err, fault.NotFound) {
		return details, nil
	}
	if err != nil {
		return details, err
	}
	details.Verification = &v
	details.Related, err = t.relatedRows(v)
	return details, err
}

// SendsOfVerificationSQL is the condition for the sends s of the verification @id. @its_recipient
// and @since are the verification's recipient and a time before it began: with both, the planner
// uses the index by recipient and time.
const SendsOfVerificationSQL = `s.recipient <= @its_recipient AND (s.recipient, s.logged_at) > (@its_recipient, @since) AND s.verification_id = @id`

func (t Tx) relatedRows(v store.Verification) ([]store.SendOrRefusal, error) {
	return QueryAll(t, sendOrRefusalFields, SendRows.selectWhere(SendsOfVerificationSQL+` AND `+t.Dialect.partitionsSince("@created_at"))+`
UNION ALL `+refusalRows.selectWhere(`s.recipient = @recipient AND s.app = @app AND s.channel = @channel AND s.logged_at >= @created_at
  AND s.logged_at < @expires_at`)+fmt.Sprintf(`
ORDER BY logged_at, id LIMIT %d`, store.MaxRelatedRows),
		Args{
			"id": v.ID, "its_recipient": v.Recipient, "since": v.CreatedAt.Add(-store.MaxIDTimeDrift),
			"recipient": refusalSearchHash(v.Recipient),
			"app":       v.App, "channel": v.Channel, "created_at": v.CreatedAt, "expires_at": v.ExpiresAt,
		})
}

// refusalSearchHash returns an empty value, which matches no row, for the zero hash: all forgotten
// recipients have the zero hash, and a search would mix different people.
func refusalSearchHash(h recipient.Hash) []byte {
	if h == store.NoRecipient {
		return []byte{}
	}
	return h[:]
}

// OnConflictAddRefusalSQL ends an INSERT of refusals: a refusal whose ID has a row is added to that
// row.
const OnConflictAddRefusalSQL = `
ON CONFLICT (id) DO UPDATE SET requests = refusals.requests + excluded.requests, retry_after = excluded.retry_after,
              recipients = CASE WHEN excluded.recipients > refusals.recipients THEN excluded.recipients ELSE refusals.recipients END`
