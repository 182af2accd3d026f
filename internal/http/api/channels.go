package api

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/recipient"
	"sendcode/internal/verify/verification"
)

type channelsJSON struct {
	Channels     []channelJSON `json:"channels"`
	PurposeTitle string        `json:"purpose_title,omitempty"`
	Accent       *accentJSON   `json:"accent,omitempty"`
}

// accentJSON has the app's accent colours for light and for dark pages.
type accentJSON struct {
	Light string `json:"light"`
	Dark  string `json:"dark"`
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

// channels handles GET /v1/channels. The answer has the channels that are not paused, and the
// countries whose phone numbers are served. Neither is a secret, because a caller could also learn
// them from refusals of sends. The answer also has what a form shows before a code is requested:
// the purpose's title and the app's accent colours.
func (a *API) channels(c echo.Context, caller verification.Caller) error {
	out, err := a.offer(caller, c.QueryParam("purpose"), cmp.Or(c.QueryParam("locale"), c.Request().Header.Get("Accept-Language")))
	if err != nil {
		return err
	}
	c.Response().Header().Add("Vary", "Accept-Language")
	return c.JSON(http.StatusOK, out)
}

// Offer returns, as JSON, what GET /v1/channels would answer to a browser of the app. Our page
// contains this JSON, so it does not need to make that request. channels are the channels of our
// page, and the result leaves out all others. If the purpose is unknown, the result is "".
func (a *API) Offer(app, purpose, languages string, channels []recipient.Channel) string {
	page := &verification.PageOffer{Channels: channels, Purposes: []string{purpose}}
	out, err := a.offer(verification.Caller{App: app, Kind: verification.Browser, Page: page}, purpose, languages)
	if err != nil {
		return ""
	}
	var text strings.Builder
	_ = json.NewEncoder(&text).Encode(out) // cannot fail for strings
	return strings.TrimSuffix(text.String(), "\n")
}

func (a *API) offer(caller verification.Caller, purpose, languages string) (channelsJSON, error) {
	out := channelsJSON{Channels: []channelJSON{}}
	if !caller.Page.HasPurpose(purpose) {
		return out, errNotOnPage
	}
	offers, err := a.services.Codes.Channels(purpose)
	if err != nil {
		return out, err
	}
	for _, o := range offers {
		if o.Paused || !caller.Page.HasChannel(o.Channel) {
			continue
		}
		ch := channelJSON{Channel: o.Channel, Countries: make([]countryJSON, 0, len(o.Countries))}
		for _, country := range o.Countries {
			if code := recipient.DialCode(country); code != "" {
				ch.Countries = append(ch.Countries, countryJSON{country, code, recipient.ExampleNumber(country)})
			}
		}
		out.Channels = append(out.Channels, ch)
	}
	shown := a.services.Codes.Appearance(caller, purpose, languages)
	out.PurposeTitle = shown.Title
	if shown.Light != "" {
		out.Accent = &accentJSON{shown.Light, shown.Dark}
	}
	return out, nil
}
