package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/http/server"
)

// maxReceiptBody bounds a carrier's request, in bytes; Aliyun sends lists.
const maxReceiptBody = 256 << 10

// maxReceiptsTime bounds how long the receipts of one request are recorded. After that time, no
// further receipt of the request is begun.
const maxReceiptsTime = time.Minute

// ReceiptAddresses makes the addresses at which carriers report receipts.
type ReceiptAddresses struct {
	PublicURL string // of this service, for carriers; empty: none
	Key       []byte // makes the tokens of the addresses
}

// URL returns the address at which a carrier reports the receipts of a send. If send is "", the
// address is for the receipts of all sends. The token in the address is a secret that only the
// carrier and this service know. Each address has its own token.
func (a ReceiptAddresses) URL(carrier, send string) string {
	query := url.Values{"token": {a.token(carrier, send)}}
	if send != "" {
		query.Set("send", send)
	}
	return a.PublicURL + server.ReceiptsPath + carrier + "?" + query.Encode()
}

func (a ReceiptAddresses) token(carrier, send string) string {
	mac := hmac.New(sha256.New, a.Key)
	mac.Write([]byte("sendcode receipt v1\x00" + carrier + "\x00" + send))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:18])
}

// ReceiptHandlers serves the addresses at which carriers report receipts. Requests without the
// right token get 404, whether the carrier exists or not.
type ReceiptHandlers struct {
	Addresses ReceiptAddresses
	Carriers  *sms.Carriers // nil: no carrier reports
	Recorder  *feedback.ReceiptRecorder
	Logger    *slog.Logger
}

// Register adds the routes.
func (rh *ReceiptHandlers) Register(e *echo.Echo) {
	e.GET(server.ReceiptsPath+":carrier", rh.receive)
	e.POST(server.ReceiptsPath+":carrier", rh.receive)
}

func (rh *ReceiptHandlers) receive(c echo.Context) error {
	carrier, send := c.Param("carrier"), c.QueryParam("send")
	if rh.Carriers == nil || !hmac.Equal([]byte(c.QueryParam("token")), []byte(rh.Addresses.token(carrier, send))) {
		return echo.ErrNotFound
	}
	reporter, ok := rh.Carriers.ReportParser(carrier)
	if !ok {
		return echo.ErrNotFound
	}
	r := c.Request()
	body, err := server.ReadBody(r, maxReceiptBody)
	if err != nil {
		return err
	}
	reports, reply, err := reporter.ParseReports(sms.IncomingRequest{
		URL:    rh.Addresses.PublicURL + r.URL.RequestURI(),
		Header: r.Header, Body: body,
	}, send)
	switch {
	case errors.Is(err, sms.ErrForged):
		rh.Logger.Warn("receipt rejected: it was forged, or public_url is not the address that the carrier calls",
			"carrier",
			carrier, logs.SeeEvents)
		return &server.Problem{Kind: server.Forbidden, Detail: "The receipt's signature is not this carrier's."}
	case err != nil:
		return &server.Problem{
			Kind:   server.BadRequest,
			Detail: "The receipt does not have the form of this carrier's receipts.",
		}
	}
	server.SetAnswerTime(c, 2*maxReceiptsTime)
	ctx, began, failed := context.WithoutCancel(r.Context()), time.Now(), false // a carrier that hangs up would send the whole list again
	for _, report := range reports {
		if time.Since(began) > maxReceiptsTime {
			failed = true
			break
		}
		if rh.recordReport(ctx, carrier, report) != nil {
			failed = true // further reports may be about other sends
		}
	}
	if failed {
		return &server.Problem{Kind: server.Unavailable} // the carrier repeats the request
	}
	if reply == "" {
		return c.NoContent(http.StatusNoContent)
	}
	return c.Blob(http.StatusOK, "application/json", []byte(reply))
}

// recordReport records one report. It returns no error for an unknown message, so that the carrier
// does not repeat the report. The errors are those of feedback.ReceiptRecorder.Record.
func (rh *ReceiptHandlers) recordReport(ctx context.Context, carrier string, report sms.Report) (err error) {
	id, idErr := uuid.Parse(report.Send)
	switch {
	case report.CarrierID != "":
		if _, err = rh.Recorder.RecordByCarrierID(ctx, carrier, report.CarrierID,
			report.Delivered); errors.Is(err, fault.NotFound) {
			rh.Logger.Info("unexpected receipt ignored", "carrier", carrier)
			return nil
		}
	case idErr != nil:
		return nil
	default:
		_, err = rh.Recorder.Record(ctx, carrier, id, report.Delivered)
	}
	if err != nil {
		rh.Logger.Warn("could not store receipt", "carrier", carrier, "send", id, "error", err, logs.SeeEvents)
	}
	return err
}
