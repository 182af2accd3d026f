package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/admission"
	"sendcode/internal/fault"
	"sendcode/internal/redemption"
	"sendcode/internal/verification"
	"sendcode/quota"
)

func invalidFieldProblem(field, reason, detail string) *Problem {
	return &Problem{Kind: InvalidField, Detail: detail, Extra: map[string]any{"field": field, "reason": reason}}
}

// table maps errors to problems: the first function that does not return nil decides. An error
// without a match becomes a 500, and is logged. Package console shows some of them as pages of its
// own.
var table = []func(error) *Problem{
	forType(func(e *fault.InvalidError) *Problem { return invalidFieldProblem(e.Field, e.Reason, e.Detail) }),
	forType(func(e *verification.TooManyChecksError) *Problem {
		wait := max(1, quota.Seconds(e.RetryAfter))
		next := "checked"
		if e.Send {
			next = "sent"
		}
		return RetryLater(TooManyChecks, "The next code can be "+next+" in "+InWords(wait)+".", wait)
	}),
	forType(func(e *verification.HeldError) *Problem {
		return nothingDone("No code is sent before "+e.Until.UTC().Format(time.RFC3339)+".", e.RetryAfter)
	}),
	forType(func(e *admission.OverloadedError) *Problem {
		return nothingDone("More requests came than can be served in time.", e.RetryAfter)
	}),
	forError(fault.NotFound, Problem{Kind: NotFound}),
	func(err error) *Problem {
		if !errors.Is(err, fault.Unavailable) && !errors.Is(err, quota.ErrUnavailable) &&
			!errors.Is(err, context.Canceled) {
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
	forError(verification.ErrBusy, Problem{Kind: conflict, Header: http.Header{"Retry-After": {"1"}}}),
	forError(verification.ErrKeyReused, Problem{Kind: keyReused}),
	forError(verification.ErrCallerCode, Problem{Kind: callerChecks}),
	forError(redemption.ErrRedeemed, Problem{Kind: proofRedeemed}),
	forError(redemption.ErrErased, Problem{Kind: erased}),
	forType(func(e *echo.HTTPError) *Problem {
		if e.Code >= http.StatusInternalServerError && e.Code != http.StatusServiceUnavailable {
			return nil
		}
		return &Problem{Kind: kindForStatus(e.Code)}
	}),
}

// nothingDone returns the problem of a request that was refused before anything was done.
func nothingDone(detail string, wait time.Duration) *Problem {
	return &Problem{Kind: Unavailable, Detail: detail,
		Header: http.Header{"Retry-After": {strconv.Itoa(quota.Seconds(wait))}},
		Extra:  map[string]any{"may_have_counted": false}}
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

// forError returns a row of the table for one error. Each problem that the row returns shares its
// Header with the others, so no caller may change it.
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
func kindForStatus(status int) ProblemKind {
	for _, k := range []ProblemKind{Unauthorized, Forbidden, NotFound, methodNotAllowed, TooLarge, UnsupportedMedia,
		TooManyAttempts, Unavailable} {
		if k.Status == status {
			return k
		}
	}
	return BadRequest
}
