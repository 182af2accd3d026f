package api

import (
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota/quotahttp"
)

type verificationJSON struct {
	ID           string             `json:"id"`
	Status       verification.State `json:"status"`
	Channel      string             `json:"channel"`
	To           string             `json:"to"`
	Purpose      string             `json:"purpose"`
	PurposeTitle string             `json:"purpose_title,omitempty"`
	store.Labels
	CreatedAt         string          `json:"created_at"`
	ExpiresAt         string          `json:"expires_at"`
	ExpiresIn         int             `json:"expires_in"` // whole seconds, rounded down, so that the answer never promises too much
	CodeFormat        *codeFormatJSON `json:"code_format,omitempty"`
	AttemptsRemaining int             `json:"attempts_remaining"`
	Test              bool            `json:"test,omitempty"`
	Recipient         string          `json:"recipient,omitempty"` // only for secret keys
	Details           string          `json:"details,omitempty"`   // only for secret keys
	Send              *sendJSON       `json:"send,omitempty"`
	Quota             *quotaJSON      `json:"quota,omitempty"`
}

// quotaJSON has the states of a recipient's rules.
type quotaJSON struct {
	*quotahttp.Quota
	HumanCheck bool `json:"human_check,omitempty"` // the next send would need a human check
}

func toQuotaJSON(a verification.Answer) *quotaJSON {
	return &quotaJSON{quotahttp.Describe(a.Quota), a.AsksNext}
}

// codeFormatJSON describes the form of a code. A page uses it for the field in which a person types
// the code.
type codeFormatJSON struct {
	Length   int           `json:"length"`
	Alphabet code.Alphabet `json:"alphabet"`
}

type sendJSON struct {
	ID     string       `json:"id"`
	Number int          `json:"number"`
	Status store.Status `json:"status"`
	Reason string       `json:"reason,omitempty"`
	Final  bool         `json:"final"`  // the status does not change any more
	Counts bool         `json:"counts"` // the send holds its place in the recipient's quota
	// FinishedAt is when the send ended; empty: it has not ended.
	FinishedAt string `json:"finished_at,omitempty"`
	// Support is a reference that a person may give to the support team. The team finds the send in
	// the console by this reference. The reference gives no access.
	Support string `json:"support,omitempty"`
	// Instead is the channel to offer if a text message failed or was not delivered; otherwise
	// empty.
	Instead recipient.Channel `json:"instead,omitempty"`
}

type checkResultJSON struct {
	ID                string             `json:"id"`
	Status            verification.State `json:"status"`
	Valid             bool               `json:"valid"`
	AttemptsRemaining *int               `json:"attempts_remaining,omitempty"`
	Proof             string             `json:"proof,omitempty"`
	Known             string             `json:"known,omitempty"`     // only for browsers
	Recipient         string             `json:"recipient,omitempty"` // only for secret keys
	Test              bool               `json:"test,omitempty"`
}

// formatTime returns a time as RFC 3339 in UTC, to the millisecond.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// toVerificationJSON returns an answer as JSON for a caller of this kind. Only callers with a
// secret key get the send's reason, the recipient's hash and the details.
func toVerificationJSON(a verification.Answer, kind verification.CallerKind) verificationJSON {
	v := a.View
	send, _ := uuid.Parse(v.Send.ID) // without a send the ID is the zero UUID, whose reference is ""
	out := verificationJSON{
		ID: v.ID, Status: v.State, Channel: string(v.Channel), To: v.To, Purpose: v.Purpose,
		PurposeTitle: v.PurposeTitle, Labels: v.Labels,
		CreatedAt: formatTime(v.CreatedAt), ExpiresAt: formatTime(v.ExpiresAt), AttemptsRemaining: v.AttemptsRemaining,
		Test: v.Test,
		Send: &sendJSON{
			ID: v.Send.ID, Number: v.Send.Number, Status: v.Send.Status, Final: v.Send.Final,
			Counts:  v.Send.Counts,
			Support: store.SupportReference(send), Instead: verification.AlternativeChannel(v.Channel, v.Send.Status),
		},
		Quota: toQuotaJSON(a),
	}
	if !v.Send.FinishedAt.IsZero() {
		out.Send.FinishedAt = formatTime(v.Send.FinishedAt)
	}
	out.ExpiresIn = int(max(0, v.ExpiresAt.Sub(v.Now)) / time.Second)
	if v.CodeFormat.Length > 0 {
		out.CodeFormat = &codeFormatJSON{v.CodeFormat.Length, v.CodeFormat.Alphabet}
	}
	if kind == verification.BackEnd { // a reason can reveal whether a mailbox exists
		out.Send.Reason, out.Recipient, out.Details = v.Send.Reason, v.RecipientHash, v.Details
	}
	return out
}

// toCheckResultJSON returns the result of a check as JSON for a caller of this kind. It has
// AttemptsRemaining only while the verification is pending.
func toCheckResultJSON(c verification.CheckResult, kind verification.CallerKind) checkResultJSON {
	out := checkResultJSON{ID: c.ID, Status: c.State, Valid: c.Valid, Proof: c.Proof, Known: c.KnownToken, Test: c.Test}
	if kind == verification.BackEnd {
		out.Recipient = c.RecipientHash
	}
	if c.State == verification.Pending {
		out.AttemptsRemaining = &c.AttemptsRemaining
	}
	return out
}
