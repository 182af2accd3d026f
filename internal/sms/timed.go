package sms

import (
	"context"
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
			receipt.Code = fail.Reply()
		}
		return receipt, fail
	}
	return receipt, nil
}

// Attempt makes one attempt to send.
func (x *Client) Attempt(ctx context.Context, r Request, read func(Response) (Receipt, *Error)) (Receipt, error) {
	return timed(x.Name(), func() (Receipt, *Error) {
		a, fail := x.Do(ctx, r)
		if fail != nil {
			return Receipt{}, fail
		}
		return read(a)
	})
}

// Unsent is the end of an attempt whose request could not be made.
func (x *Client) Unsent(err error) (Receipt, error) {
	return timed(x.Name(), func() (Receipt, *Error) {
		return Receipt{}, &Error{Class: Later.class, Stage: StageMessage, Err: err}
	})
}

// BasicAuth is RFC 7617 section 2.
func BasicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
