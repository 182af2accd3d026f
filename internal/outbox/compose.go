package outbox

import (
	"cmp"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/message"
	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/sms"
	"sendcode/internal/store"
)

// composed is a message ready to send: a mail or a text message. It is the only place that holds both the code and the full recipient;
// they leave it only in the message.
type composed struct {
	mail delivery.Message
	text *sms.Message // nil: it is a mail
}

// unsendable says why a message cannot be composed.
type unsendable struct {
	reason string
	refund bool
	err    error // nil: a policy forbids the message
}

func composeFailure(reason string, err error) *unsendable {
	return &unsendable{reason: reason, refund: true, err: err}
}

// compose decrypts the recipient and the code of a row, checks block lists and number rules again, since the configuration may have
// changed, and renders the message.
func (o *Outbox) compose(set policy.Set, w store.Work) (composed, *unsendable) {
	v := w.Verification
	to, address, err := o.recipientOf(w)
	if err != nil {
		return composed{}, composeFailure(ReasonUnreadable, err)
	}
	if set.Blocks.Has(to, address) {
		return composed{}, &unsendable{reason: ReasonBlocked}
	}
	if refusal := set.Numbers.Refuse(to); refusal != nil {
		return composed{}, &unsendable{reason: ReasonCountry, refund: true}
	}
	digits, err := o.Vault.Code(v)
	if err != nil {
		return composed{}, composeFailure(ReasonUnreadable, err)
	}
	left := v.ExpiresAt.Sub(o.Now())
	request := message.Request{
		App: v.App, Locale: v.Locale, Purpose: v.Purpose, Notify: set.Purposes[v.Purpose].Notify, // empty for a removed purpose, so the notification hides the code
		Data: set.AppData(v.App),
	}
	request.Data.Code, request.Data.Minutes = digits, message.Minutes(left)
	if v.Channel == recipient.SMS {
		return o.composeText(w, to, request, left)
	}
	return o.composeMail(w, to, request, cmp.Or(set.Apps[v.App].Sender, o.MailFrom))
}

// recipientOf returns the recipient and its hash. It decrypts them only if the work does not carry them.
func (o *Outbox) recipientOf(w store.Work) (recipient.Recipient, recipient.Hash, error) {
	if !w.To.IsZero() {
		return w.To, w.Address, nil
	}
	to, err := o.Vault.Recipient(w.Verification)
	if err != nil {
		return to, recipient.Hash{}, err
	}
	return to, o.Vault.AddressHash(to), nil
}

func (o *Outbox) composeMail(w store.Work, to recipient.Recipient, request message.Request, from string) (composed, *unsendable) {
	request.Data.Support = store.SupportReference(w.Send.ID)
	m, err := o.Renderer.Prepare(request)
	if err != nil {
		return composed{}, composeFailure(ReasonTemplate, err)
	}
	id := w.Send.ID.String()
	mail := delivery.Message{
		ID: id + "@" + o.Domain, From: from, To: to.Address(), Form: m.Form, Fill: m.Fill, Language: m.Language, Date: w.Send.LoggedAt,
	}
	if len(o.Marks) > 0 {
		mail.Marks = map[string]string{}
	}
	for _, name := range o.Marks {
		mail.Marks[name] = id
	}
	return composed{mail: mail}, nil
}

func (o *Outbox) composeText(w store.Work, to recipient.Recipient, request message.Request, left time.Duration) (composed, *unsendable) {
	if o.Carrier == nil {
		return composed{}, composeFailure(ReasonOff, errOff)
	}
	text, err := o.Texts.Render(request)
	if err != nil {
		return composed{}, composeFailure(ReasonTemplate, err)
	}
	return composed{text: &sms.Message{
		ID: w.Send.ID.String(), App: w.Send.App, Segments: text.Segments, To: to.Address(), Country: to.Country(), Text: text.Text,
		Code: request.Data.Code, Minutes: request.Data.Minutes, Purpose: w.Send.Purpose, Language: text.Language, Life: left,
	}}, nil
}
