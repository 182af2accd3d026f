package app

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/config"
	"sendcode/internal/server"
	"sendcode/internal/sms"
	"sendcode/internal/store"
)

// receiptsPath is where carriers tell what became of messages, with their name behind it.
const receiptsPath = "/v1/receipts/"

// maxReceipt bounds what a carrier may send at once, in bytes; Aliyun sends lists.
const maxReceipt = 256 << 10

// Callback is where a carrier tells of a send; of all of them where send is "". The token makes the address a secret between
// the carrier and us, for this send alone.
func Callback(cfg config.Config, carrier, send string) string {
	query := url.Values{"token": {receiptToken(cfg, carrier, send)}}
	if send != "" {
		query.Set("send", send)
	}
	return cfg.SMS.PublicURL + receiptsPath + carrier + "?" + query.Encode()
}

func receiptToken(cfg config.Config, carrier, send string) string {
	mac := hmac.New(sha256.New, cfg.IndexKeyBytes())
	mac.Write([]byte("sendcode receipt v1\x00" + carrier + "\x00" + send))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:18])
}

// registerReceipts takes what carriers tell. Who has no token learns nothing, not even which carriers there are.
func (a *App) registerReceipts(e *echo.Echo) {
	carriers, ok := a.carrier.(*sms.Carriers)
	if !ok || a.cfg.SMS.PublicURL == "" {
		return
	}
	take := func(c echo.Context) error { return a.takeReceipt(c, carriers) }
	e.GET(receiptsPath+":carrier", take)
	e.POST(receiptsPath+":carrier", take)
}

func (a *App) takeReceipt(c echo.Context, carriers *sms.Carriers) error {
	carrier, send := c.Param("carrier"), c.QueryParam("send")
	if !hmac.Equal([]byte(c.QueryParam("token")), []byte(receiptToken(a.cfg, carrier, send))) {
		return echo.ErrNotFound
	}
	reporter, ok := carriers.Reporter(carrier)
	if !ok {
		return echo.ErrNotFound
	}
	r := c.Request()
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, maxReceipt))
	if err != nil {
		return &server.Problem{Kind: server.BadRequest}
	}
	reports, reply, err := reporter.Reports(sms.Incoming{URL: a.cfg.SMS.PublicURL + r.URL.RequestURI(), Header: r.Header, Body: body}, send)
	switch {
	case errors.Is(err, sms.ErrForged):
		a.logger.Warn("a receipt was forged, or public_url is not the address that the carrier calls", "carrier", carrier)
		return &server.Problem{Kind: server.Forbidden}
	case err != nil:
		return &server.Problem{Kind: server.BadRequest}
	}
	for _, report := range reports {
		if err := a.receive(c, carrier, report); err != nil {
			return &server.Problem{Kind: server.Unavailable} // it comes again
		}
	}
	if reply == "" {
		return c.NoContent(http.StatusNoContent)
	}
	return c.Blob(http.StatusOK, "application/json", []byte(reply))
}

// receive takes one report. One that is not ours is no reason to have it sent again.
func (a *App) receive(c echo.Context, carrier string, report sms.Report) (err error) {
	id, unreadable := uuid.Parse(report.Send)
	switch {
	case report.ID != "":
		if _, err = a.receipts.RecordByCarrierID(c.Request().Context(), carrier, report.ID, report.Delivered); errors.Is(err, store.ErrNotFound) {
			a.logger.Info("a receipt is of a message that waits for none", "carrier", carrier)
			return nil
		}
	case unreadable != nil:
		return nil
	default:
		_, err = a.receipts.Record(c.Request().Context(), id, report.Delivered)
	}
	if err != nil {
		a.logger.Warn("the log did not take a receipt", "carrier", carrier, "send", id, "error", err)
	}
	return err
}
