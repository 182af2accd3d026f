package outbox

import (
	"cmp"
	"context"
	"errors"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/store"
	"sendcode/quota"
)

// transmitFunc sends a composed message and returns the provider's answer. In this package, only
// compose and the transmitFunc see both the code and the full recipient. They write them only into
// the message.
type transmitFunc func(context.Context) (delivery.Result, error)

// failToCompose logs why a message cannot be composed, and returns the outcome of its send.
func (o *Outbox) failToCompose(w store.Work, reason string, err error) (transmitFunc, store.Outcome) {
	o.Logger.Error("could not compose message", "send", w.Send.ID, "reason", reason, "error", err,
		logs.SeeSendsFail)
	return nil, store.Outcome{Status: store.Failed, Reason: reason, Refund: true}
}

// compose decrypts the recipient of a row, derives or decrypts the code, and renders the message.
// It checks block lists and number rules again, because the configuration may have changed. It
// returns the function that sends the message. If the message must not or cannot be sent, it
// returns nil and the outcome. The parameter used has the providers that earlier sends used. Other
// providers that work are tried before them. The parameter acceptedBy has those of them that
// accepted an earlier message.
func (o *Outbox) compose(set policy.Set, w store.Work, used, acceptedBy []string) (transmitFunc, store.Outcome) {
	v := w.Verification
	app := set.Apps[v.App]
	to, address, err := o.recipientOf(w)
	if err != nil {
		return o.failToCompose(w, ReasonUnreadable, err)
	}
	if to.Channel() == recipient.SMS {
		address = w.Send.Recipient // for numbers, Vault.SuppressionHash returns this hash
	}
	if set.Blocks.IsBlocked(to, address) {
		return nil, store.Outcome{Status: store.Failed, Reason: store.ReasonBlocked}
	}
	if set.Numbers.Validate(to) != nil {
		return nil, store.Outcome{Status: store.Failed, Reason: policy.ReasonCountryNotServed, Refund: true}
	}
	code, timed, err := o.Vault.CodeForSend(w)
	if err != nil {
		return o.failToCompose(w, ReasonUnreadable, err)
	}
	left := v.ExpiresAt.Sub(w.Now)
	request := message.RenderRequest{
		App: v.App, Locale: v.Locale, Purpose: v.Purpose, Site: w.Send.Site,
		Data:   message.AppData(v.App, app.Title, app.Brand, app.AndroidHash),
		Titles: set.Purposes[v.Purpose].Titles,
		Notify: set.Purposes[v.Purpose].Notify, // empty for a removed purpose: then notifications do not show the code
	}
	request.Data.Code, request.Data.Details = code, v.Details
	if timed {
		request.Data.Minutes = message.DisplayedMinutes(left)
	}
	if v.Channel == recipient.SMS {
		return o.composeText(w, to, request, left, used, acceptedBy)
	}
	return o.composeMail(w, to, request, cmp.Or(app.Sender, o.MailFrom), used, acceptedBy)
}

// recipientOf returns the recipient and the hash of its address. If the work does not have them,
// recipientOf decrypts the recipient.
func (o *Outbox) recipientOf(w store.Work) (to recipient.Recipient, address recipient.Hash, err error) {
	if !w.To.IsZero() {
		return w.To, w.Address, nil
	}
	to, err = o.Vault.OpenRecipient(w.Verification)
	if err != nil {
		return to, recipient.Hash{}, err
	}
	return to, o.Vault.AddressHash(to), nil
}

func (o *Outbox) composeMail(w store.Work, to recipient.Recipient, request message.RenderRequest, from string,
	used, acceptedBy []string,
) (transmitFunc, store.Outcome) {
	request.Data.Requested, request.Data.Support = message.DisplayedTime(w.Send.LoggedAt), store.SupportReference(w.Send.ID)
	messageID, notMe, err := o.Vault.MailTokens(w.Send.ID, w.Verification.KeyID)
	if err != nil {
		return o.failToCompose(w, ReasonUnreadable, err)
	}
	if o.NotMeURL != "" && !w.Verification.CallerChecks { // reporting can't end a code that the caller checks
		request.Data.NotMe = o.NotMeURL + notMe
	}
	m, err := o.Mails.Prepare(request)
	if err != nil {
		return o.failToCompose(w, delivery.ReasonTemplate, err)
	}
	mail := delivery.Mail{
		MessageID: messageID + "@" + o.Domain, To: to.Address(), Form: m.Form, Fill: m.Fill, Token: m.Token,
		SharedFields: delivery.SharedFields{From: from, Language: m.Language}, Date: w.Send.LoggedAt,
		Stranger: chosenByAnyone(w), Used: used, AcceptedBy: acceptedBy,
	}
	if len(o.IDHeaders) > 0 {
		mail.IDHeaders = map[string]string{}
	}
	for _, name := range o.IDHeaders {
		mail.IDHeaders[name] = w.Send.ID.String()
	}
	return func(ctx context.Context) (delivery.Result, error) { return o.Sender.Send(ctx, mail) }, store.Outcome{}
}

// chosenByAnyone reports whether a stranger may have chosen the recipient. In the global scope even
// a known browser is a stranger.
func chosenByAnyone(w store.Work) bool {
	return policy.IsStrangerInScope(w.Verification.Class, quota.Global)
}

// wasSilent reports whether the server gave no answer to RCPT or DATA at the last attempt of a
// stranger's mail.
func wasSilent(w store.Work) bool {
	return chosenByAnyone(w) && w.Send.ProviderCode == "" &&
		(w.Send.Reason == temporary+delivery.StageRcpt || w.Send.Reason == temporary+delivery.StageData)
}

func (o *Outbox) composeText(w store.Work, to recipient.Recipient, request message.RenderRequest,
	left time.Duration, used, acceptedBy []string,
) (transmitFunc, store.Outcome) {
	if o.Carrier == nil {
		return o.failToCompose(w, reasonNotConfigured, errNoCarrier)
	}
	text, err := o.Texts.Render(request)
	if err != nil {
		return o.failToCompose(w, delivery.ReasonTemplate, err)
	}
	m := sms.Message{
		ID: w.Send.ID.String(), App: w.Send.App, Stranger: chosenByAnyone(w),
		Segments: text.Segments,
		To:       to.Address(), Country: to.Country(), Prefix: to.VisiblePrefix(), Text: text.Text,
		Code: request.Data.Code, Minutes: request.Data.Minutes, Purpose: w.Send.Purpose, Language: text.Language,
		Life: left, Used: used, AcceptedBy: acceptedBy,
	}
	return func(ctx context.Context) (delivery.Result, error) { return o.Carrier.Send(ctx, m) }, store.Outcome{}
}

// errNoCarrier is the error of a text message that waited while its carrier was removed from the
// settings.
var errNoCarrier = errors.New("outbox: no carrier is configured")
