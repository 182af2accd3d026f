package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/texts"
	"sendcode/internal/codes/keys"
	"sendcode/internal/limit/admission"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// Problem is an error response in application/problem+json (RFC 9457). It is an error, so that
// handlers can return it.
type Problem struct {
	Kind ProblemKind
	// Detail is an English sentence for the developer. It may have placeholders: {wait} is replaced
	// by the wait, and the name of a member in braces by the member's value. If Detail is "", the
	// text in Kind.Cause is used.
	Detail string
	Wait   time.Duration  // until the request may be repeated; 0: the status decides, see wait
	Extra  map[string]any // further members, such as field, position, quota
	// Variant selects the text that replaces Detail in other languages than English, if the kind
	// has several such texts. The key of the text is the kind's slug, a dot and Variant. If Variant
	// is empty, the problem's member reason is used in place of Variant. If the member
	// may_have_counted is true, the word "uncertain" is used instead of both.
	Variant string
	closes  bool // the connection ends with the answer

	base    string // address of the service, with which the problem's type begins
	request string // ID of the request that this problem answers
}

func (p *Problem) Error() string { return "problem: " + p.Kind.Slug }

// wait returns the wait in the answer. For a 429, the wait is at least one second. For a 503 whose
// Wait is 0, the wait is unavailableWait.
func (p *Problem) wait() time.Duration {
	switch p.Kind.Status {
	case http.StatusTooManyRequests:
		return max(p.Wait, time.Second)
	case http.StatusServiceUnavailable:
		return cmp.Or(p.Wait, unavailableWait)
	}
	return p.Wait
}

// MarshalJSON writes the entries of Extra as members of the problem object itself. RFC 9457 section
// 3.2 requires this for extensions. In a 429, the member retry_after has the wait.
func (p *Problem) MarshalJSON() ([]byte, error) {
	members := map[string]any{}
	maps.Copy(members, p.Extra)
	members["type"] = p.base + problemsPath + p.Kind.Slug
	members["title"] = p.Kind.Title
	members["status"] = p.Kind.Status
	members["detail"] = p.Detail
	if p.Kind.Status == http.StatusTooManyRequests {
		members["retry_after"] = quota.Seconds(p.wait())
	}
	if p.request != "" {
		members["request_id"] = p.request
	}
	return json.Marshal(members)
}

// errorHandler returns echo's error handler. The handler answers with the error's problem, as JSON
// or as a page for a browser. It logs unexpected errors. The problem's type begins with publicURL.
// If publicURL is empty, the type is a path.
func errorHandler(logger *slog.Logger, publicURL string) echo.HTTPErrorHandler {
	return func(err error, c echo.Context) {
		if c.Response().Committed {
			return
		}
		LogFailure(c.Request().Context(), logger, err)
		p := ProblemOf(err)
		if p.Kind.Slug == NotFound.Slug && p.Detail == "" {
			p.Detail = addressHint(c)
		}
		if werr := writeProblem(c, p, publicURL); werr != nil {
			logger.DebugContext(c.Request().Context(), "could not write response", "error", werr)
		}
	}
}

// writeProblem answers with the problem. Outside /v1/, a client that accepts HTML gets a page. All
// other clients get JSON, and the problem's type begins with base.
func writeProblem(c echo.Context, p *Problem, base string) error {
	SetRetryAfter(c, p.wait())
	h := c.Response().Header()
	if p.closes {
		h.Set("Connection", "close")
	}
	if p.Kind.Status == http.StatusUnauthorized && h.Get("WWW-Authenticate") == "" {
		h.Set("WWW-Authenticate", `Bearer realm="sendcode"`)
	}
	if !strings.HasPrefix(c.Request().URL.Path, "/v1/") && strings.Contains(c.Request().Header.Get("Accept"), "text/html") {
		return writeProblemPage(c, p.Kind.Status, problemPage{p.Kind, p.InEnglish()})
	}
	words := texts.PageTextsFor(c.Request().Header.Get("Accept-Language"))
	h.Set("Content-Language", words.Lang())
	h.Add("Vary", "Accept-Language")
	answer := p.in(words)
	answer.base, answer.request = base, logs.RequestID(c.Request().Context())
	body, err := answer.MarshalJSON() // json.Marshal would read and copy the JSON once more
	if err != nil {
		return err
	}
	return c.Blob(p.Kind.Status, "application/problem+json", body)
}

// in returns the problem in a language. Member names in braces, such as {blocked_by}, are replaced
// by the members' values. {wait} is replaced by the wait in words. In languages other than English,
// the text for the slug or reason replaces a problem's own detail.
func (p *Problem) in(words texts.Words) *Problem {
	reason, _ := p.Extra["reason"].(string)
	reason = cmp.Or(p.Variant, reason)
	if p.Extra["may_have_counted"] == true {
		reason = "uncertain"
	}
	title, detail := words.ProblemTranslation(p.Kind.Slug, reason)
	if title == "" { // English
		title, detail = p.Kind.Title, cmp.Or(p.Detail, p.Kind.Cause)
	}
	localized := *p
	localized.Kind.Title = title
	localized.Detail = ""
	for { // no regular expression: strangers can cause thousands of answers a second
		text, rest, _ := strings.Cut(detail, "{")
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			localized.Detail += detail
			return &localized
		}
		value := "{" + name + "}"
		if name == "wait" {
			value = words.Duration(p.wait())
		} else if member, ok := p.Extra[name]; ok {
			value = fmt.Sprint(member)
		}
		localized.Detail += text + value
		detail = after
	}
}

// InEnglish returns the detail in English, with the wait in words such as "42 s" or "23 h 10 min".
func (p *Problem) InEnglish() string { return p.in(texts.PageLanguages()[0]).Detail }

// unavailableWait is the Retry-After of a 503 whose Wait is 0. A limiter that failed is tried again
// after one second, so the limiter may work again by then.
const unavailableWait = 2 * time.Second

// SetRetryAfter sets the header Retry-After of an answer, unless the wait is 0. Only an answer that
// is not a Problem needs the call.
func SetRetryAfter(c echo.Context, wait time.Duration) {
	if wait > 0 {
		quotahttp.SetRetryAfter(c.Response().Header(), wait)
	}
}

// SetDefaultRetryAfter sets the header Retry-After of a 503 that has none, to unavailableWait.
func SetDefaultRetryAfter(c echo.Context, status int) {
	if status == http.StatusServiceUnavailable && c.Response().Header().Get("Retry-After") == "" {
		SetRetryAfter(c, unavailableWait)
	}
}

// LogFailure logs an error of the service itself. Such an error is a 500, or a 503 because the
// database or the limiter failed. LogFailure does not log errors after the client disconnected,
// because the disconnect cancels the context. It also does not log a request that was refused on
// purpose, or a bare fault.Kind, which has no cause.
func LogFailure(ctx context.Context, logger *slog.Logger, err error) {
	if _, overloaded := errors.AsType[*admission.OverloadedError](err); overloaded { // there may be thousands a second
		return
	}
	kind := ProblemOf(err).Kind
	_, bare := err.(fault.Kind)
	_, answered := errors.AsType[*Problem](err)
	_, held := errors.AsType[*verification.HoldUntilError](err)
	switch {
	case ctx.Err() != nil || kind != internalError && (kind != Unavailable || bare || answered || held):
	case errors.Is(err, keys.ErrUnknownKey):
		logger.ErrorContext(ctx, "request needs missing key", "problem", kind.Slug, "error", err, logs.SeeKeys)
	default:
		logger.ErrorContext(ctx, "request failed", "problem", kind.Slug, "error", err, logs.SeeDatabaseAway)
	}
}

// ProblemOf returns the problem of an error. If the error is a *Problem, ProblemOf returns this
// Problem. Otherwise it uses errorTable. If errorTable has no match, it returns a 500.
func ProblemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	for _, row := range errorTable {
		if p := row(err); p != nil {
			return p
		}
	}
	return &Problem{Kind: internalError}
}
