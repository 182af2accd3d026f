package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"sendcode/internal/fault"
	"sendcode/internal/redemption"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// Kind is one kind of problem. Its slug is part of the API: clients compare it.
type Kind struct {
	Slug        string
	Status      int
	Title       string
	Explanation string // shown at /problems/<slug>
}

// kinds are all kinds, by slug.
var kinds = map[string]Kind{}

func registerKind(slug string, status int, title, explanation string) Kind {
	kinds[slug] = Kind{slug, status, title, explanation}
	return kinds[slug]
}

// The kinds of problems. Each has a page at /problems/<slug>.
var (
	MalformedJSON = registerKind("malformed-json", http.StatusBadRequest, "Not valid JSON",
		"The body could not be read as one JSON object. `position` is the byte at which reading stopped.")
	UnknownField = registerKind("unknown-field", http.StatusBadRequest, "Unknown field",
		"The body holds a field that this endpoint does not know; `field` names it. Nothing was done.")
	BadRequest   = registerKind("bad-request", http.StatusBadRequest, "Bad request", "The request could not be understood.")
	Unauthorized = registerKind("unauthorized", http.StatusUnauthorized, "Not authorised",
		"Send an API key: `Authorization: Bearer sk_…`. `sendcode key` makes one.")
	Forbidden    = registerKind("forbidden", http.StatusForbidden, "Not allowed", "This key, or a page of this origin, may not do that.")
	ScopeMissing = registerKind("insufficient-scope", http.StatusForbidden, "Insufficient scope",
		"The API key has `scopes`, and the one that this request needs is not among them; `scope` names it. Nothing was done.")
	NotFound = registerKind("not-found", http.StatusNotFound, "Not found",
		"Page not found.")
	MethodNotAllowed = registerKind("method-not-allowed", http.StatusMethodNotAllowed, "Method not allowed",
		"The header Allow names the methods that this address knows.")
	Conflict = registerKind("conflict", http.StatusConflict, "Conflict", "Another request with the same Idempotency-Key is being worked on.")
	NotDone  = registerKind("not-done", http.StatusConflict, "Not done",
		"What was asked for is not possible any more, or a rule is against it. It is recorded that it was tried.")
	ProofRedeemed = registerKind("proof-redeemed", http.StatusConflict, "Proof redeemed before",
		"A proof or reference is exchanged for the address once. A repetition needs the Idempotency-Key of the first request.")
	Erased    = registerKind("erased", http.StatusGone, "Erased", "The recipient was erased since; its address is not kept any more.")
	KeyReused = registerKind("idempotency-key-reused", http.StatusUnprocessableEntity, "Idempotency-Key used before",
		"This Idempotency-Key came with another request in the last 24 hours. Use a new key for a new request. Nothing was done.")
	TooLarge         = registerKind("too-large", http.StatusRequestEntityTooLarge, "Body too large", "A body may hold at most 16 KiB.")
	UnsupportedMedia = registerKind("unsupported-media-type", http.StatusUnsupportedMediaType, "Unsupported media type",
		"Send `Content-Type: application/json`.")
	InvalidField = registerKind("invalid-field", http.StatusUnprocessableEntity, "Invalid field",
		"`field` names the field, `reason` is a stable word for what is wrong with it, `detail` says it in a sentence.")
	QuotaExceeded = registerKind("quota-exceeded", http.StatusTooManyRequests, "Too many codes",
		"At least one rule has no place left. `blocked_by` is the rule that blocks longest, `retry_after` its wait in whole seconds: a "+
			"request after that is let in, an earlier one is not. A refused request costs nothing and moves no deadline.")
	TooManyChecks = registerKind("too-many-checks", http.StatusTooManyRequests, "Too many failed checks",
		"Too many wrong codes were entered for this recipient or from this network, so none is compared now. A new code gives no new tries, "+
			"and none is sent that could not be checked: recipients are counted apart for what browsers and what secret keys asked for. "+
			"`retry_after` is the wait in whole seconds. Nothing was counted or sent.")
	TooManyAttempts = registerKind("too-many-attempts", http.StatusTooManyRequests, "Too many attempts", "Wait as long as Retry-After says.")
	TooManyRequests = registerKind("too-many-requests", http.StatusTooManyRequests, "Too many requests",
		"Browsers of your network made too many requests in the last minute, whatever they asked for. Wait as long as Retry-After says. "+
			"Nothing was done, and nothing was counted against a recipient. Back ends with a secret key have no such limit.")
	Internal = registerKind("internal", http.StatusInternalServerError, "Internal error",
		"Something went wrong on our side; the request's X-Request-Id finds it in the log.")
	DeliveryFailed = registerKind("delivery-failed", http.StatusBadGateway, "Could not be delivered",
		"The message was refused for good, or not even tried; `send.reason` says why (`suppressed`: the recipient gets no mail for a while; "+
			"`paused`: nothing is sent for now). Unless `send.counts` is true, another code may be asked for at once.")
	Unavailable = registerKind("unavailable", http.StatusServiceUnavailable, "Temporarily unavailable",
		"The service can't decide this right now. This is not a quota: try again after Retry-After. `may_have_counted` false: nothing was sent, and "+
			"nothing counts. true: the database did not answer whether it took the request, so a send may go out, and a send or a try may "+
			"count; what it did not take is given back once it answers.")
)

func invalidFieldProblem(field, reason, detail string) *Problem {
	return &Problem{Kind: InvalidField, Detail: detail, Extra: map[string]any{"field": field, "reason": reason}}
}

// table maps errors to problems: the first function that does not return nil decides. An error without a match becomes a 500, and is
// logged. Package console shows some of them as pages of its own.
var table = []func(error) *Problem{
	forType(func(e *fault.InvalidError) *Problem { return invalidFieldProblem(e.Field, e.Reason, e.Detail) }),
	forType(func(e *verification.TooManyChecksError) *Problem {
		wait := max(1, quota.Seconds(e.RetryAfter))
		next := "checked"
		if e.Send {
			next = "sent"
		}
		return RetryLater(TooManyChecks, "The next code can be "+next+" in "+strconv.Itoa(wait)+" s.", wait)
	}),
	forError(fault.NotFound, Problem{Kind: NotFound}),
	func(err error) *Problem {
		if !errors.Is(err, fault.Unavailable) && !errors.Is(err, quota.ErrUnavailable) && !errors.Is(err, context.Canceled) {
			return nil
		}
		uncertain := errors.Is(err, fault.Uncertain)
		p := &Problem{Kind: Unavailable, Extra: map[string]any{"may_have_counted": uncertain}}
		if uncertain {
			p.Detail = "The outcome is not known: a send may still go out, and a send or a try may count. A repetition with the same " +
				"Idempotency-Key sends nothing twice."
		}
		return p
	},
	forError(verification.ErrBusy, Problem{Kind: Conflict, Header: http.Header{"Retry-After": {"1"}}}),
	forError(verification.ErrOtherRequest, Problem{Kind: KeyReused}),
	forError(redemption.ErrRedeemed, Problem{Kind: ProofRedeemed}),
	forError(redemption.ErrErased, Problem{Kind: Erased}),
	forType(func(e *echo.HTTPError) *Problem {
		if e.Code >= http.StatusInternalServerError && e.Code != http.StatusServiceUnavailable {
			return nil
		}
		return &Problem{Kind: kindForStatus(e.Code)}
	}),
}

// forType returns a row of the table for errors of one type.
func forType[E error](problem func(E) *Problem) func(error) *Problem {
	return func(err error) *Problem {
		if e, ok := errors.AsType[E](err); ok {
			return problem(e)
		}
		return nil
	}
}

// forError returns a row of the table for one error. Each problem that the row returns shares its Header with the others, so no caller may
// change it.
func forError(target error, problem Problem) func(error) *Problem {
	return func(err error) *Problem {
		if !errors.Is(err, target) {
			return nil
		}
		copied := problem
		return &copied
	}
}

// kindForStatus returns the most general kind for a status that echo or a middleware chose.
func kindForStatus(status int) Kind {
	for _, k := range []Kind{Unauthorized, Forbidden, NotFound, MethodNotAllowed, TooLarge, UnsupportedMedia, TooManyAttempts, Unavailable} {
		if k.Status == status {
			return k
		}
	}
	return BadRequest
}
