package sms

import (
	"encoding/base64"
	"time"
)

// timed makes of one attempt what Carrier.Send gives.
func timed(name string, attempt func() (Receipt, *Error)) (Receipt, error) {
	began := time.Now()
	receipt, fail := attempt()
	receipt.Carrier, receipt.Took = name, time.Since(began)
	if fail != nil {
		if receipt.Code == "" {
			receipt.Code = fail.Word()
		}
		return receipt, fail
	}
	return receipt, nil
}

// basicAuth is RFC 7617 section 2.
func basicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
