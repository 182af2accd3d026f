package echoquota

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// unavailableWait is the Retry-After of a 503.
const unavailableWait = 2 * time.Second

func answerRefused(c echo.Context, d quota.Decision) error {
	members := quotahttp.ProblemMembers(d)
	members["type"] = c.Scheme() + "://" + c.Request().Host + "/problems/" + quotahttp.ProblemSlug
	members["title"] = quotahttp.ProblemTitle
	members["detail"] = fmt.Sprintf("The rule %s has no place left; the next request is let in after %d s.",
		members["blocked_by"], members["retry_after"])
	return writeProblem(c, http.StatusTooManyRequests, members)
}

func answerUnavailable(c echo.Context, _ error) error {
	quotahttp.SetRetryAfter(c.Response().Header(), unavailableWait)
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
