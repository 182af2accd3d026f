package twilio

import (
	"context"
	"net/http"
	"strings"

	"sendcode/internal/sms"
)

func (t *carrier) Address() string { return t.Endpoint }

// Probe fetches a message that there is not: with the right login that is a 404 (twilio.com/docs/usage/requests-to-twilio).
func (t *carrier) Probe(ctx context.Context) (string, error) {
	a, fail := t.Do(ctx, sms.Request{
		Method: http.MethodGet,
		URL:    strings.TrimSuffix(t.Endpoint, "/") + "/2010-04-01/Accounts/" + t.Account + "/Messages/SM" + strings.Repeat("0", 32) + ".json",
		Header: http.Header{"Authorization": {sms.BasicAuth(t.user(), t.Secret)}, "Accept": {"application/json"}},
	})
	switch {
	case fail != nil:
		return "", fail
	case a.Status == http.StatusNotFound || a.Status == http.StatusOK:
		return ", and takes the login", nil
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		return "", sms.ErrLogin
	}
	return "", sms.ErrUndocumented
}
