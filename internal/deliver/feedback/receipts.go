package feedback

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/internal/codes/keys"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/store"
)

// ReceiptStore is implemented by sqldb.DB.
type ReceiptStore interface {
	TakeDuePolls(ctx context.Context, limit int) ([]store.PendingReceipt, error)
	SendByMessageID(ctx context.Context, carrier, id string) (uuid.UUID, error)
	StopAwaitingReceipt(ctx context.Context, carrier string, send uuid.UUID) error
	RecordReceipt(ctx context.Context, id uuid.UUID, status store.Status, appEvents ...store.NewEvent) (bool, error)
	SendDetails(ctx context.Context, id uuid.UUID) (store.SendDetails, error)
}

// pollers is implemented by *sms.Carriers.
type pollers interface {
	Poller(name string) (sms.Poller, bool)
}

// ReceiptRecorder records the receipts of text messages. Some carriers report receipts, and others
// are polled for them. For a carrier that is polled, the outbox writes a row to the database, which
// gives each due poll to one replica.
type ReceiptRecorder struct {
	Vault    keys.Vault
	Events   webhook.Events
	Store    ReceiptStore
	Carriers pollers // nil: Poll must not be called
	Logger   *slog.Logger
}

// These are bounds of polling in each replica. One carrier allows 20 polls a second for a whole
// account.
const (
	pollBatch       = 10 // polls in one tick
	PollConcurrency = 4
	pollTimeout     = time.Minute // for a whole batch; the carriers' own timeouts are shorter
)

// Record sets the send's status by a carrier's receipt, writes the app's event, and ends the
// polling of this carrier. changed is false if
//
//   - the send did not go out,
//   - the send already has this receipt, or was already reported as delivered, or
//   - the receipt says that the message is lost, but another carrier accepted it. Then the receipt
//     is about an attempt that this carrier refused.
//
// If the receipt says that the message is lost, but the send still has the status Sending, Record
// returns fault.Unavailable, because it isn't known yet which carrier accepts the message. This
// carrier must repeat the receipt, or be polled later. Other errors: the database's.
func (r *ReceiptRecorder) Record(ctx context.Context, carrier string, send uuid.UUID, delivered bool) (changed bool, err error) {
	status, event := store.Undelivered, store.SendUndelivered
	if delivered {
		status, event = store.Delivered, store.SendDelivered
	}
	details, err := r.Store.SendDetails(ctx, send)
	switch {
	case errors.Is(err, fault.NotFound) || err == nil && details.Verification == nil:
		return false, nil
	case err == nil && !delivered && details.Send.Status == store.Sending: // details.Send.Provider, if set, refused an earlier attempt
		return false, fault.Unavailable
	case err == nil && !delivered && details.Send.Provider != "" && details.Send.Provider != carrier:
		r.stopAwaitingReceipt(ctx, carrier, send)
		return false, nil
	}
	var appEvent store.NewEvent
	if err == nil {
		appEvent, err = r.Events.NewEvent(*details.Verification, event)
	}
	if err != nil {
		return false, store.WrapUnavailable(err)
	}
	if changed, err = r.Store.RecordReceipt(ctx, send, status, appEvent); err == nil {
		r.stopAwaitingReceipt(ctx, carrier, send)
		r.Events.WakeForEvent(appEvent)
	}
	return changed, err
}

// RecordByCarrierID is Record for a receipt that has only the carrier's message ID. Error:
// fault.NotFound if no send waits for a receipt with that ID.
func (r *ReceiptRecorder) RecordByCarrierID(ctx context.Context, carrier, id string, delivered bool) (changed bool,
	err error,
) {
	send, err := r.Store.SendByMessageID(ctx, carrier, id)
	if err != nil {
		return false, err
	}
	return r.Record(ctx, carrier, send, delivered)
}

// Poll polls the carriers for up to pollBatch receipts that are due. Package jobs calls it; more is
// always false. It fails if the due polls could not be read from the database.
func (r *ReceiptRecorder) Poll(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	due, err := r.Store.TakeDuePolls(ctx, pollBatch)
	if err != nil {
		return false, err
	}
	var polls errgroup.Group
	polls.SetLimit(PollConcurrency)
	for _, a := range due {
		polls.Go(func() error {
			defer panics.Recover(panics.Job)
			r.poll(ctx, a)
			return nil
		})
	}
	return false, polls.Wait()
}

// poll asks the carrier for one receipt. If there is none yet, poll does nothing more, because the
// next poll is already in the database.
func (r *ReceiptRecorder) poll(ctx context.Context, a store.PendingReceipt) {
	q, err := r.statusQuery(ctx, a)
	poller, can := r.Carriers.Poller(a.Carrier)
	if errors.Is(err, errNoStatusQuery) || !can {
		r.stopAwaitingReceipt(ctx, a.Carrier, a.Send) // no receipt is needed, or the carrier cannot be polled for one
		return
	}
	if err != nil {
		return
	}
	report, known, err := poller.PollStatus(ctx, q)
	fail, failed := errors.AsType[*delivery.Error](err)
	switch {
	case failed && fail.Class == delivery.Rejected:
		r.stopAwaitingReceipt(ctx, a.Carrier, a.Send)
	case err != nil:
		r.Logger.Info("carrier did not answer status query", "send", a.Send, "carrier", a.Carrier, "error", err)
	case known:
		if _, err := r.Record(ctx, a.Carrier, a.Send, report.Delivered); err != nil && ctx.Err() == nil {
			r.Logger.Warn("could not store receipt", "send", a.Send, "error", err, logs.SeeEvents)
		}
	}
}

var errNoStatusQuery = errors.New("reports: the send needs no receipt any more, or its recipient cannot be decrypted")

func (r *ReceiptRecorder) statusQuery(ctx context.Context, a store.PendingReceipt) (sms.StatusQuery, error) {
	details, err := r.Store.SendDetails(ctx, a.Send)
	ended := []store.Status{store.Delivered, store.Undelivered, store.Failed} // Undelivered can become Delivered, but not by a poll
	switch {
	case errors.Is(err, fault.NotFound) || err == nil && (details.Verification == nil || slices.Contains(ended, details.Send.Status)):
		return sms.StatusQuery{}, errNoStatusQuery
	case err != nil:
		return sms.StatusQuery{}, err
	}
	to, err := r.Vault.OpenRecipient(*details.Verification)
	if err != nil {
		return sms.StatusQuery{}, errNoStatusQuery
	}
	return sms.StatusQuery{Send: a.Send.String(), CarrierID: a.ID, To: to.Address(), Country: to.Country(), At: a.At}, nil
}

func (r *ReceiptRecorder) stopAwaitingReceipt(ctx context.Context, carrier string, send uuid.UUID) {
	if err := r.Store.StopAwaitingReceipt(ctx, carrier, send); err != nil && ctx.Err() == nil {
		r.Logger.Warn("could not end the wait for a receipt", "send", send, "error", err, logs.SeeEvents)
	}
}
