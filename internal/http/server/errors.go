package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/limit/admission"
	"sendcode/internal/verify/proof"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

func invalidFieldProblem(field, reason, detail string) *Problem {
	return &Problem{Kind: InvalidField, Detail: detail, Extra: map[string]any{"field": field, "reason": reason}}
}

// errorTable maps errors to problems: the first function that does not return nil decides. An error
// without a match becomes a 500 and is logged. Package console shows some of these errors as its
// own pages.
var errorTable = []func(error) *Problem{
	mapErrorType(func(e *fault.InvalidError) *Problem { return invalidFieldProblem(e.Field, e.Reason, e.Detail) }),
	mapErrorType(func(e *verification.FailedCheckLimitError) *Problem {
		next := "checked"
		if e.Send {
			next = "sent"
		}
		return &Problem{Kind: TooManyChecks, Detail: "The next code can be " + next + " in {wait}.", Wait: e.RetryAfter}
	}),
	mapErrorType(func(e *verification.HoldUntilError) *Problem {
		return unavailableProblem("No code is sent before "+e.Until.UTC().Format(time.RFC3339)+".", e.RetryAfter)
	}),
	mapErrorType(func(e *admission.OverloadedError) *Problem {
		if e.Slow != "" {
			p := unavailableProblem("Messages of this channel go out slowly just now: the code would arrive too late.", e.RetryAfter)
			p.Extra["slow"] = e.Slow
			return p
		}
		return unavailableProblem("More requests came than can be served in time.", e.RetryAfter)
	}),
	mapErrorValue(fault.NotFound, Problem{Kind: NotFound}),
	mapErrorValue(ErrOtherOrigin, Problem{
		Kind: Forbidden, Detail: "The request came from another site, or does not say from which. " +
			"If you sent it from our own page, open the page by https://.",
	}),
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
	mapErrorValue(verification.ErrKeyInProgress, Problem{Kind: conflict, Wait: time.Second}),
	mapErrorValue(verification.ErrKeyReused, Problem{Kind: keyReused}),
	mapErrorValue(verification.ErrKeyOfOtherCode, Problem{Kind: keyOfOtherCode}),
	mapErrorValue(verification.ErrCallerCode, Problem{Kind: checkedByCallerKind}),
	mapErrorValue(verification.ErrOurCode, Problem{Kind: checkedHereKind}),
	mapErrorValue(proof.ErrRedeemed, Problem{Kind: proofRedeemedKind}),
	mapErrorValue(proof.ErrErased, Problem{Kind: erasedKind}),
	mapErrorType(func(e *echo.HTTPError) *Problem {
		if e.Code >= http.StatusInternalServerError && e.Code != http.StatusServiceUnavailable {
			return nil
		}
		return &Problem{Kind: problemKindForStatus(e.Code)}
	}),
}

// unavailableProblem returns the 503 of a request that was refused before anything was done.
func unavailableProblem(detail string, wait time.Duration) *Problem {
	return &Problem{Kind: Unavailable, Detail: detail, Wait: wait, Extra: map[string]any{"may_have_counted": false}}
}

// mapErrorType returns an entry of errorTable for errors of one type.
func mapErrorType[E error](problem func(E) *Problem) func(error) *Problem {
	return func(err error) *Problem {
		if e, ok := errors.AsType[E](err); ok {
			return problem(e)
		}
		return nil
	}
}

// mapErrorValue returns an entry of errorTable for one error.
func mapErrorValue(target error, problem Problem) func(error) *Problem {
	return func(err error) *Problem {
		if !errors.Is(err, target) {
			return nil
		}
		return new(problem)
	}
}

// problemKindForStatus returns the most general kind for a status that echo or a middleware chose.
func problemKindForStatus(status int) ProblemKind {
	for _, k := range []ProblemKind{
		Unauthorized, Forbidden, NotFound, methodNotAllowed, TooLarge, UnsupportedMedia,
		TooManyAttempts, Unavailable,
	} {
		if k.Status == status {
			return k
		}
	}
	return BadRequest
}
