package echoquota

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// unavailableRetryAfter is the Retry-After of a 503, in seconds.
const unavailableRetryAfter = 2

func answerRefused(c echo.Context, d quota.Decision) error {
	worst, _ := d.Blocking()
	members := quotahttp.ProblemMembers(d)
	members["type"] = c.Scheme() + "://" + c.Request().Host + "/problems/" + quotahttp.ProblemSlug
	members["title"] = quotahttp.ProblemTitle
	members["detail"] = "The rule " + worst.Name + " has no place left; the next request is let in after " +
		strconv.Itoa(quotahttp.RetryAfterSeconds(d)) +
		" s."
	return writeProblem(c, http.StatusTooManyRequests, members)
}

func answerUnavailable(c echo.Context, _ error) error {
	c.Response().Header().Set("Retry-After", strconv.Itoa(unavailableRetryAfter))
	return writeProblem(c, http.StatusServiceUnavailable, map[string]any{
		"type": "about:blank", "title": http.StatusText(http.StatusServiceUnavailable),
		"detail": "The limiter is away, so nothing was let in. This is not a quota.",
	})
}

func writeProblem(c echo.Context, status int, members map[string]any) error {
	members["status"] = status
	body, err := json.Marshal(members)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Blob(status, "application/problem+json", body)
}
