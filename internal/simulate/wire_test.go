package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/sms"
	"sendcode/internal/verification/verificationtest"
)

// mail is a message, a mail or a text message, on its way to a simulated provider.
type mail struct {
	at        time.Time
	send      string // ID
	messageID string
	to, code  string
	after     int  // number of crashes before it arrived
	unheard   bool // it arrived, but the sender got no answer
}

// wire is the simulated mail server, as one replica reaches it.
type wire struct{ *Replica }

// Send implements outbox.Sender.
func (s wire) Send(ctx context.Context, m delivery.Message) (delivery.Receipt, error) {
	id, _, _ := strings.Cut(m.ID, "@")
	err := s.deliver(ctx, mail{send: id, messageID: m.ID, to: m.To, code: verificationtest.CodeIn(m)})
	return delivery.Receipt{Provider: "mx.example", Code: "250 2.0.0"}, err
}

// carrier is the simulated carrier, as one replica reaches it.
type carrier struct{ *Replica }

// Send implements outbox.Carrier.
func (s carrier) Send(ctx context.Context, m sms.Message) (sms.Receipt, error) {
	err := s.deliver(ctx, mail{send: m.ID, messageID: m.ID, to: m.To, code: m.Code})
	return sms.Receipt{Provider: "carrier.example", Code: "202"}, err
}

// deliver delivers a message to the simulated provider, with random faults. Error: a *delivery.Error; with the class Unknown, the message
// has arrived.
func (r *Replica) deliver(ctx context.Context, m mail) error {
	w := r.world
	f := r.turn(ctx, "server "+m.send, w.wrong(ServerStalls))
	failure := func(class delivery.Class, stage string, status int, code string) error {
		w.count("server: " + string(class))
		return &delivery.Error{Class: class, Stage: stage, Status: status, Code: code, Err: errors.New("simulated")}
	}
	switch {
	case f == cut:
		return failure(delivery.Temporary, "dial", 0, "")
	case f == tooLate:
		return failure(delivery.Temporary, "rcpt", 0, "")
	case w.wrong(ServerRefuses):
		return failure(delivery.Rejected, "data", 554, "5.7.1")
	case w.wrong(ServerBusy):
		return failure(delivery.Temporary, "rcpt", 451, "4.3.0")
	}
	m.at, m.unheard = time.Now(), w.wrong(ServerDrops)
	w.recordArrival(m)
	if m.unheard {
		return failure(delivery.Unknown, "data", 0, "")
	}
	w.note("%s hands over %s", r.name, m.send)
	return nil
}

// recordArrival records a message that the provider accepted.
func (w *world) recordArrival(m mail) {
	w.count("message arrived")
	w.mu.Lock()
	defer w.mu.Unlock()
	m.after = w.crashes
	w.mails = append(w.mails, m)
}

// receiver is the simulated back end of an app, which receives webhooks.
type receiver struct{ *Replica }

// RoundTrip implements http.RoundTripper.
func (h receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	w := h.world
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f := h.turn(r.Context(), "hook", false)
	if f == cut || f == tooLate {
		return nil, context.DeadlineExceeded
	}
	status := http.StatusNoContent
	if w.wrong(HookFails) {
		status = http.StatusInternalServerError
	} else {
		w.recordWebhook(r.Header.Get("Webhook-Id"), string(body))
	}
	if f == cutTooFar || w.wrong(HookDeaf) {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil)), Request: r}, nil
}

// recordWebhook records a received webhook event, and reports a violation if the same ID came with another content.
func (w *world) recordWebhook(id, body string) {
	_, _ = w.posted.Write([]byte(body + "\n"))
	w.mu.Lock()
	before, known := w.hooks[id]
	w.hooks[id] = body
	w.mu.Unlock()
	w.count("webhook taken")
	if known && typeOf(before) != typeOf(body) {
		w.broke("webhooks", "the event %s was told in two ways: %s and %s", id, before, body)
	}
}

// typeOf returns an event's type, send and status. It ignores the masked address, which may be erased between two attempts.
func typeOf(body string) string {
	var e struct {
		Type string
		Data struct {
			Send   string `json:"send_id"`
			Status string
		}
	}
	_ = json.Unmarshal([]byte(body), &e)
	return e.Type + " " + e.Data.Send + " " + e.Data.Status
}
