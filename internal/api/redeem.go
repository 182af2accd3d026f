package api

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"sendcode/internal/redemption"
	"sendcode/internal/server"
	"sendcode/internal/verification"
)

// Proofs exchanges proofs for addresses. Implementation: redemption.Service.
type Proofs interface {
	Redeem(ctx context.Context, app string, r redemption.Ask) (redemption.Redeemed, error)
}

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

// redeem is POST /v1/proofs/redeem: the whole address, once. Secret keys only, since browsers carry proofs.
func (a *API) redeem(c echo.Context) error {
	who := caller(c)
	if who.Kind != verification.Secret {
		return &server.Problem{Kind: server.Forbidden, Detail: "Only secret keys may redeem proofs."}
	}
	var body redeemBody
	if err := server.ReadJSON(c, &body); err != nil {
		return err
	}
	key, err := idempotencyKey(c.Request().Header)
	if err != nil {
		return err
	}
	r, err := a.proofs.Redeem(c.Request().Context(), who.App, redemption.Ask{Proof: body.Proof, Reference: body.Reference, Key: key})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, redeemedJSON{r.ID, string(r.Channel), r.To, r.Recipient, r.Purpose, instant(r.ApprovedAt), r.Test})
}
