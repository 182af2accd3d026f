package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sendcode/internal/recipient"
	"sendcode/internal/verification"
)

type channelsJSON struct {
	Channels []channelJSON `json:"channels"`
}

type channelJSON struct {
	Channel   recipient.Channel `json:"channel"`
	Countries []countryJSON     `json:"countries,omitempty"`
}

// countryJSON is a served country, for an input of phone numbers.
type countryJSON struct {
	Country  string `json:"country"`
	DialCode string `json:"dial_code"`
	Example  string `json:"example,omitempty"`
}

// channels is GET /v1/channels: the channels that are not paused, and the served countries of phone numbers. These are no secret, since
// refusals reveal them too.
func (a *API) channels(c echo.Context, _ verification.Caller) error {
	out := channelsJSON{Channels: []channelJSON{}}
	offers, err := a.codes.Channels(c.QueryParam("purpose"))
	if err != nil {
		return err
	}
	for _, o := range offers {
		if o.Paused {
			continue
		}
		ch := channelJSON{Channel: o.Channel}
		for _, country := range o.Countries {
			if code := recipient.DialCode(country); code != "" {
				ch.Countries = append(ch.Countries, countryJSON{country, code, recipient.ExampleNumber(country)})
			}
		}
		out.Channels = append(out.Channels, ch)
	}
	return c.JSON(http.StatusOK, out)
}
