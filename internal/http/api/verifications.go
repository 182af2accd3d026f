package api

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota/quotahttp"
)

type sendBody struct {
	Channel string `json:"channel"`
	To      string `json:"to"`
	Country string `json:"country"`
	Purpose string `json:"purpose"`
	Locale  string `json:"locale"`
	store.Labels
	ClientIP       string `json:"client_ip"`
	VerificationID string `json:"verification_id"`
	Session        string `json:"session"`
	Details        string `json:"details"`
	Trust          string `json:"trust"`
	Code           string `json:"code"`
	TTL            *int   `json:"ttl"` // seconds

	Known []string `json:"known"`

	HumanCheck string `json:"human_check"` // a token

	// If Sure is not nil, the service may ask the caller to confirm the recipient before it sends
	// anything. It asks if the domain looks mistyped, or if the number is a landline. It does not
	// ask about the domain or number that is the value of Sure. If Sure is nil, it never asks.
	Sure *string `json:"sure"`
}

// send handles POST /v1/verifications.
func (a *API) send(c echo.Context, who verification.Caller, body sendBody) error {
	ask, err := parseSendRequest(c, who, body)
	if err == nil {
		err = cmp.Or(checkOffer(ask), doubtAbout(body))
	}
	if err != nil {
		return err
	}
	allowWait(c, ask.Wait)
	answer, err := a.services.Codes.Send(c.Request().Context(), ask)
	if err != nil {
		return err
	}
	h := c.Response().Header()
	if err := quotahttp.SetRateLimit(h, answer.Quota); err != nil {
		return err
	}
	switch {
	case answer.HumanCheck != nil:
		return humanCheckProblem(answer)
	case !answer.Admitted:
		return quotaProblem(answer)
	}
	logs.AddAttrs(c.Request().Context(), slog.String("send", answer.View.Send.ID))
	h.Set(echo.HeaderLocation, "/v1/verifications/"+answer.View.ID)
	if answer.Replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	setPreferenceApplied(h, ask.Wait)
	if ask.Wait > 0 && answer.View.Send.Status == store.Failed {
		return deliveryFailedProblem(answer, ask.Kind)
	}
	return c.JSON(http.StatusAccepted, toVerificationJSON(answer, ask.Kind))
}

// doubtAbout returns a problem that asks whether the caller means this recipient. It does so only
// if the request sets Sure, and if the domain looks mistyped or the number is a landline. It does
// not report an invalid recipient, because the send refuses such a recipient later.
func doubtAbout(body sendBody) error {
	if body.Sure == nil || body.VerificationID != "" {
		return nil
	}
	to, err := recipient.ParseInCountry(recipient.Channel(body.Channel), body.To, body.Country)
	if err != nil {
		return nil
	}
	sure, _ := recipient.Parse(recipient.Email, "mailto:a@"+*body.Sure) // the confirmed domain may have blanks or brackets too
	better, likely := recipient.SuggestDomain(to.Address())
	switch {
	case to.Channel() == recipient.SMS && to.Landline() && *body.Sure != body.To:
		return fault.Invalid("to", "landline", "This looks like a landline, which gets no text messages.")
	case to.Channel() == recipient.Email && likely && sure.Domain() != to.Domain():
		return &server.Problem{
			Kind: server.InvalidField, Detail: "The domain looks mistyped.",
			Extra: map[string]any{"field": "to", "reason": "domain_typo", "suggestion": better},
		}
	}
	return nil
}

// parseSendRequest makes the request that Service.Send gets, from the body and the headers of the
// HTTP request.
func parseSendRequest(c echo.Context, who verification.Caller, body sendBody) (verification.Request, error) {
	ask := verification.Request{
		Caller: who, Channel: body.Channel, To: body.To, Country: body.Country, Purpose: body.Purpose,
		Locale: body.Locale,
		Labels: body.Labels, Session: body.Session, Resend: body.VerificationID, KnownTokens: body.Known,
		Code: body.Code, HumanCheck: body.HumanCheck, Details: body.Details,
	}
	if body.TTL != nil {
		if *body.TTL < 1 || *body.TTL > int(store.MaxCodeLife/time.Second) {
			return ask, verification.ErrTTLOutOfRange
		}
		ask.TTL = time.Duration(*body.TTL) * time.Second
	}
	if who.Kind == verification.Browser && who.Page == nil {
		if origin, err := url.Parse(c.Request().Header.Get(echo.HeaderOrigin)); err == nil {
			ask.Site = origin.Hostname() // authenticate has checked that the origin is one of the app's
		}
	}
	if languages := c.Request().Header.Get("Accept-Language"); ask.Locale == "" && len(languages) <= texts.MaxAcceptLanguage {
		ask.Languages = languages
	}
	if err := errors.Join(setClientIP(&ask.Caller, body.ClientIP), setTrust(&ask.Caller, body.Trust)); err != nil {
		return ask, err
	}
	var err error
	if ask.Wait, err = preferredWait(c.Request().Header, verification.MaxWait); err != nil {
		return ask, err
	}
	ask.IdempotencyKey, err = idempotencyKey(c.Request().Header)
	return ask, err
}

// setClientIP sets the caller's IP to the end user's address in the parameter clientIP. The rules
// on networks use this address, and the failed checks of a network are counted by it. Only a back
// end may give an address. A browser could evade the rules with a false address. The error is a
// *fault.InvalidError.
func setClientIP(who *verification.Caller, clientIP string) error {
	if clientIP == "" {
		return nil
	}
	if who.Kind != verification.BackEnd {
		return fault.Invalid("client_ip", "not_allowed", "Only secret keys may name the client's address.")
	}
	ip, ok := quotahttp.ParseHop(clientIP)
	if !ok || strings.Contains(clientIP, "%") {
		return fault.Invalid("client_ip", "invalid", "This is not an IPv4 or IPv6 address.")
	}
	who.IP = ip
	return nil
}

// setTrust sets the caller's trust to the trust in the request. If trust is "", the setting of the
// key remains. "known" means that the back end knows the person. "stranger" is allowed only if the
// key's setting is known. Otherwise "stranger" is an error, so that a back end that was written for
// a key with that setting cannot go on with another key unnoticed. The error is a
// *fault.InvalidError.
func setTrust(who *verification.Caller, trust string) error {
	switch {
	case trust == "":
		return nil
	case who.Kind != verification.BackEnd:
		return fault.Invalid("trust", "not_allowed", "Only a request with a secret key may contain trust.")
	case trust == "known":
		who.Trust = verification.SaidKnown
	case trust == "stranger" && who.Trust == verification.ImpliedKnown:
		who.Trust = verification.SaidStranger
	case trust == "stranger":
		return fault.Invalid("trust", "unknown", "Leave trust out: the request is then for a stranger. "+
			"Only a key with trust known in its settings can say stranger.")
	default:
		return fault.Invalid("trust", "unknown", "The only value of trust is known. Leave trust out if the request is for a stranger.")
	}
	return nil
}

// get handles GET /v1/verifications/{id}.
func (a *API) get(c echo.Context, who verification.Caller) error {
	v, err := a.services.Codes.Get(c.Request().Context(), who, c.Param("id"))
	if err != nil {
		return err
	}
	return writeJSONWithRateLimit(c, v.Quota, toVerificationJSON(v, who.Kind))
}

type quotaBody struct {
	Channel  string `json:"channel"`
	To       string `json:"to"`
	Purpose  string `json:"purpose"`
	ClientIP string `json:"client_ip"`
	Trust    string `json:"trust"`
}

// quota handles POST /v1/quota. It returns the states of a recipient's rules and counts no event.
// Only secret keys may use it, because the states reveal how often a person's address was used.
func (a *API) quota(c echo.Context, who verification.Caller, body quotaBody) error {
	if err := errors.Join(setClientIP(&who, body.ClientIP), setTrust(&who, body.Trust)); err != nil {
		return err
	}
	v, err := a.services.Codes.Quota(c.Request().Context(), who, body.Channel, body.To, body.Purpose)
	if err != nil {
		return err
	}
	return writeJSONWithRateLimit(c, v.Quota, map[string]any{"quota": toQuotaJSON(v)})
}
