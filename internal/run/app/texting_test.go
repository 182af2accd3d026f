package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"sendcode/internal/deliver/delivery"
)

// The log mentions each code of a temporary failure once for each carrier, and no code of other
// failures. It mentions at most maxLoggedCarrierCodes codes.
func TestCodesOfCarriersAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	logCode := newCarrierCodeLogger(slog.New(slog.NewTextHandler(&log, nil)))
	for range 2 {
		for _, carrier := range []string{"first", "second"} {
			logCode(carrier, nil)
			logCode(carrier, &delivery.Error{Class: delivery.Temporary, Status: 201, Code: "30034", About: delivery.AboutRecipient})
			logCode(carrier, &delivery.Error{Class: delivery.Temporary, Status: 503})
			for _, class := range []delivery.ErrorClass{delivery.Rejected, delivery.Unknown} {
				logCode(carrier, &delivery.Error{Class: class, Code: "21211"})
			}
		}
	}
	if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `carrier=second reply="201 30034"`) {
		t.Errorf("%s", got)
	}
	log.Reset()
	for n := range maxLoggedCarrierCodes {
		logCode("third", &delivery.Error{Class: delivery.Temporary, Code: fmt.Sprint(n)})
	}
	if n := strings.Count(log.String(), "\n"); n != maxLoggedCarrierCodes-2 {
		t.Errorf("%d lines", n)
	}
}
