// Package feedback records what carriers and mail providers report of a message after they took it: receipts, bounces, complaints.
// It stands behind the way of a send and gives no place back: the message was taken, and counted.
package feedback

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/delivery"
	"sendcode/internal/sms"
	"sendcode/internal/store"
	"sendcode/internal/vault"
)

// ReceiptStore is the log as receipts need it. Implementations: postgres.DB and sqlite.DB.
type ReceiptStore interface {
	DuePolls(ctx context.Context, limit int) ([]store.PendingReceipt, error)
	SendAwaiting(ctx context.Context, carrier, id string) (uuid.UUID, error)
	PollAnswered(ctx context.Context, send uuid.UUID) error
	Receive(ctx context.Context, id uuid.UUID, status store.Status) (bool, error)
	Story(ctx context.Context, id uuid.UUID) (store.Story, error)
}

// Carriers are those that can be asked for receipts. Implementation: *sms.Carriers.
type Carriers interface {
	Asker(name string) (sms.Asker, bool)
}

// Receipts records what became of text messages: reported by carriers, or asked for. The outbox notes each message that can be asked
// about as a carrier takes it; the log hands out those whose time has come, to one replica each.
type Receipts struct {
	Store    ReceiptStore
	Carriers Carriers // nil: none is asked
	Vault    vault.Vault
	Logger   *slog.Logger
}

// The rate of polling: so many at a time in each replica. One carrier takes 20 a second for a whole account.
const (
	pollBatch       = 10 // a tick
	PollConcurrency = 4
	pollTimeout     = time.Minute // for all of a batch, which the carriers' own timeouts end before
)

// Record records a receipt, and that its message need not be asked for any more. False: it was known, or the send waits for none.
// Errors: those of the log.
func (r *Receipts) Record(ctx context.Context, send uuid.UUID, delivered bool) (changed bool, err error) {
	status := store.Undelivered
	if delivered {
		status = store.Delivered
	}
	if changed, err = r.Store.Receive(ctx, send, status); err == nil {
		r.answered(ctx, send)
	}
	return changed, err
}

// RecordByCarrierID is Record for a message that is known by its carrier's ID. Error: store.ErrNotFound where that is not known.
func (r *Receipts) RecordByCarrierID(ctx context.Context, carrier, id string, delivered bool) (bool, error) {
	send, err := r.Store.SendAwaiting(ctx, carrier, id)
	if err != nil {
		return false, err
	}
	return r.Record(ctx, send, delivered)
}

// Poll asks the carriers for the receipts that are due. It is one of the jobs.
func (r *Receipts) Poll(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	due, err := r.Store.DuePolls(ctx, pollBatch)
	if err != nil {
		return false, err
	}
	var work sync.WaitGroup
	slots := make(chan struct{}, PollConcurrency)
	for _, a := range due {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			r.ask(ctx, a)
		})
	}
	work.Wait()
	return false, nil
}

// ask asks once what became of a message. What is not known yet is asked again at its next time, which the log has set.
func (r *Receipts) ask(ctx context.Context, a store.PendingReceipt) {
	q, err := r.inquiry(ctx, a)
	asker, can := r.Carriers.Asker(a.Carrier)
	if errors.Is(err, errNoInquiry) || !can {
		r.answered(ctx, a.Send) // the carrier is gone, or the recipient was erased
		return
	}
	if err != nil {
		return
	}
	report, known, err := asker.Ask(ctx, q)
	var fail *delivery.Error
	switch {
	case errors.As(err, &fail) && fail.Class == delivery.Rejected:
		r.answered(ctx, a.Send)
	case err != nil:
		r.Logger.Info("a carrier did not answer an inquiry", "send", a.Send, "carrier", a.Carrier, "error", err)
	case known:
		if _, err := r.Record(ctx, a.Send, report.Delivered); err != nil && ctx.Err() == nil {
			r.Logger.Warn("the log did not take a receipt", "send", a.Send, "error", err)
		}
	}
}

// errNoInquiry: there is nothing left to ask for.
var errNoInquiry = errors.New("feedback: nothing to ask for")

func (r *Receipts) inquiry(ctx context.Context, a store.PendingReceipt) (sms.Inquiry, error) {
	story, err := r.Store.Story(ctx, a.Send)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && (story.Verification == nil || final(story.Send.Status)):
		return sms.Inquiry{}, errNoInquiry
	case err != nil:
		return sms.Inquiry{}, err
	}
	to, err := r.Vault.Recipient(*story.Verification)
	if err != nil {
		return sms.Inquiry{}, errNoInquiry
	}
	return sms.Inquiry{Send: a.Send.String(), ID: a.ID, To: to.Address(), Country: to.Country(), At: a.At}, nil
}

// final says that no receipt changes the status any more.
func final(s store.Status) bool {
	return s == store.Delivered || s == store.Undelivered || s == store.Failed
}

func (r *Receipts) answered(ctx context.Context, send uuid.UUID) {
	if err := r.Store.PollAnswered(ctx, send); err != nil && ctx.Err() == nil {
		r.Logger.Warn("the log did not take that no receipt is awaited any more", "send", send, "error", err)
	}
}
