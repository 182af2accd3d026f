package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sendcode/internal/verify/proof"
	"sendcode/internal/verify/verification"
)

type redeemBody struct {
	Proof     string `json:"proof"`
	Reference string `json:"reference"`
}

type redeemedJSON struct {
	VerificationID string `json:"verification_id"`
	Channel        string `json:"channel"`
	To             string `json:"to"`
	Recipient      string `json:"recipient"`
	Purpose        string `json:"purpose"`
	ApprovedAt     string `json:"approved_at"`
	Test           bool   `json:"test"`
}

// redeem handles POST /v1/proofs/redeem. The answer contains the whole address that the proof is
// about. A proof can be redeemed once, but a repetition with the same Idempotency-Key gets the
// answer again.
func (a *API) redeem(c echo.Context, who verification.Caller, body redeemBody) error {
	key, err := idempotencyKey(c.Request().Header)
	if err != nil {
		return err
	}
	r, err := a.services.Proofs.Redeem(c.Request().Context(), who.App,
		proof.RedeemRequest{Proof: body.Proof, Reference: body.Reference, IdempotencyKey: key})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, redeemedJSON{
		r.ID, string(r.Channel), r.To, r.RecipientHash, r.Purpose,
		formatTime(r.ApprovedAt), r.Test,
	})
}
