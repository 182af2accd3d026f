package verification

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/sms"
	"sendcode/internal/store"
)

// What became of a text message is told by its carrier, or asked for. Each message that somebody will ask about, or that a
// carrier tells of by its own ID, is noted in the log as it is taken; the log hands out those whose time has come, to one
// replica each.

// Inquirer says which carriers can be asked, and which tell by their own ID. Implementation: sms.Carriers.
type Inquirer interface {
	Asker(name string) (sms.Asker, bool)
	ToldByID(name string) bool
}

// The rate of inquiries: so many in a turn, and at once, in each replica. One carrier takes 20 a second for a whole account.
const (
	inquiriesEach  = 10 // a tick
	inquiriesAtOne = 4
	inquiryWait    = time.Minute // for all of a turn, which the carriers' own timeouts end before
)

// await notes a message that a carrier has taken.
func (o *outbox) await(ctx context.Context, w store.Work, r sms.Receipt) {
	if o.Inquirer == nil || r.ID == "" {
		return
	}
	ask := time.Duration(0)
	if _, can := o.Inquirer.Asker(r.Carrier); can {
		ask = o.AskAfter
	} else if !o.Inquirer.ToldByID(r.Carrier) {
		return
	}
	o.insist(func(ctx context.Context) (bool, error) {
		return true, o.Log.AwaitReceipt(ctx, store.PendingReceipt{Carrier: r.Carrier, ID: r.ID, Send: w.Send.ID}, ask)
	})
}

// inquireInTime asks for what is due, beside the outbox's own turns and never twice at once.
func (o *outbox) inquireInTime(ctx context.Context) {
	if o.Inquirer == nil || o.AskAfter == 0 || !o.inquiring.CompareAndSwap(false, true) {
		return
	}
	o.done.Go(func() {
		defer o.inquiring.Store(false)
		ctx, cancel := context.WithTimeout(ctx, inquiryWait)
		defer cancel()
		o.inquire(ctx)
	})
}

func (o *outbox) inquire(ctx context.Context) {
	due, err := o.Log.DuePolls(ctx, inquiriesEach)
	if err != nil {
		if ctx.Err() == nil {
			o.Logger.Warn("what carriers are to be asked could not be read", "error", err)
		}
		return
	}
	var work sync.WaitGroup
	room := make(chan struct{}, inquiriesAtOne)
	for _, a := range due {
		room <- struct{}{}
		work.Go(func() {
			defer func() { <-room }()
			o.ask(ctx, a)
		})
	}
	work.Wait()
}

// ask asks once what became of a message. What is not known yet is asked again at its next time, which the log has set.
func (o *outbox) ask(ctx context.Context, a store.PendingReceipt) {
	q, err := o.inquiry(ctx, a)
	asker, can := o.Inquirer.Asker(a.Carrier)
	if errors.Is(err, errNoInquiry) || !can {
		o.answered(ctx, a.Send) // the carrier is gone, or the recipient was erased
		return
	}
	if err != nil {
		return
	}
	report, known, err := asker.Ask(ctx, q)
	var fail *sms.Error
	switch {
	case errors.As(err, &fail) && fail.Class == delivery.Rejected:
		o.answered(ctx, a.Send)
	case err != nil:
		o.Logger.Info("a carrier was asked in vain", "send", a.Send, "carrier", a.Carrier, "error", err)
	case known:
		if _, err := o.Receipt(ctx, a.Send, report.Delivered); err != nil && ctx.Err() == nil {
			o.Logger.Warn("the log did not take a receipt", "send", a.Send, "error", err)
		}
	}
}

// errNoInquiry: there is nothing left to be asked for.
var errNoInquiry = errors.New("verification: nothing to ask for")

func (o *outbox) inquiry(ctx context.Context, a store.PendingReceipt) (sms.Inquiry, error) {
	story, err := o.Log.Story(ctx, a.Send)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && (story.Verification == nil || final(story.Send.Status)):
		return sms.Inquiry{}, errNoInquiry
	case err != nil:
		return sms.Inquiry{}, err
	}
	to, err := o.recipientOf(*story.Verification)
	if err != nil {
		return sms.Inquiry{}, errNoInquiry
	}
	return sms.Inquiry{Send: a.Send.String(), ID: a.ID, To: to.Address(), Country: to.Country(), At: a.At}, nil
}

// final says that no receipt changes the status any more.
func final(s store.Status) bool {
	return s == store.Delivered || s == store.Undelivered || s == store.Failed
}

func (o *outbox) answered(ctx context.Context, send uuid.UUID) {
	if err := o.Log.PollAnswered(ctx, send); err != nil && ctx.Err() == nil {
		o.Logger.Warn("the log did not take that nothing more is awaited", "send", send, "error", err)
	}
}

// Receipt records what became of a text message, and that it need not be asked for any more. False: it was known, or the
// send is none of those. Errors: those of the log.
func (s *Service) Receipt(ctx context.Context, send uuid.UUID, delivered bool) (changed bool, err error) {
	status := store.Undelivered
	if delivered {
		status = store.Delivered
	}
	if changed, err = s.Log.Receive(ctx, send, status); err == nil {
		s.outbox.answered(ctx, send)
	}
	return changed, err
}

// ReceiptOf is Receipt for who knows a message by its carrier's ID. Error: store.ErrNotFound where nobody knows it.
func (s *Service) ReceiptOf(ctx context.Context, carrier, id string, delivered bool) (bool, error) {
	send, err := s.Log.SendAwaiting(ctx, carrier, id)
	if err != nil {
		return false, err
	}
	return s.Receipt(ctx, send, delivered)
}
