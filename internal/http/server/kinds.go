package server

import (
	"net/http"
	"slices"

	"sendcode/quota/quotahttp"
)

// ProblemKind is one kind of problem. The page /problems/<slug> explains the kind. The slug is the
// last segment of a problem's type. Clients compare the slug, so it is part of the API.
type ProblemKind struct {
	Slug   string
	Status int
	Title  string
	Cause  string // detail of a problem that has no detail of its own
	Remedy string // for the developer of the caller
	Say    string // what to show a person
}

// problemKinds are all kinds, in the order in which the documentation shows them.
var problemKinds []ProblemKind

// ProblemKinds returns all kinds, in a slice that the caller may change.
func ProblemKinds() []ProblemKind { return slices.Clone(problemKinds) }

func registerProblemKind(k ProblemKind) ProblemKind {
	problemKinds = append(problemKinds, k)
	return k
}

// ourFaultMessage is shown to a person after a mistake of the caller or of the service.
const ourFaultMessage = "Something went wrong on our side. Please try again later."

// These are all kinds of problems. docs/openapi.yaml has the slugs, and package texts has titles
// and details in other languages. Tests compare both with these variables.
var (
	MalformedJSON = registerProblemKind(ProblemKind{
		Slug: "malformed-json", Status: http.StatusBadRequest, Title: "Not valid JSON",
		Cause: "The body is not one JSON object.",
		Remedy: "Send one JSON object in UTF-8 in which no name occurs twice. `line` and `column` say where reading stopped (from 1; columns in " +
			"characters), `position` says it in bytes from 0. `field` is a name that occurs twice. Nothing was done.",
		Say: ourFaultMessage,
	})
	unknownField = registerProblemKind(ProblemKind{
		Slug: "unknown-field", Status: http.StatusBadRequest, Title: "Unknown field",
		Cause:  "The body has a field that this endpoint does not accept.",
		Remedy: "`field` names it, `line` and `column` say where it stands. Names are case-sensitive; /docs has all of them. Nothing was done.",
		Say:    ourFaultMessage,
	})
	BadRequest = registerProblemKind(ProblemKind{
		Slug: "bad-request", Status: http.StatusBadRequest, Title: "Bad request",
		Cause:  "The request could not be understood.",
		Remedy: "`detail` says what is wrong. Change the request before you repeat it. Nothing was done.", Say: ourFaultMessage,
	})
	Unauthorized = registerProblemKind(ProblemKind{
		Slug: "unauthorized", Status: http.StatusUnauthorized, Title: "Not authorised",
		Cause: "The request has no key, token or signature that is valid here.",
		Remedy: "Send an API key: `Authorization: Bearer sk_…`; `sendcode key` makes one. Under /v1/admin send an admin token in its place. An event " +
			"of a mail provider is signed as its setting says.", Say: ourFaultMessage,
	})
	Forbidden = registerProblemKind(ProblemKind{
		Slug: "forbidden", Status: http.StatusForbidden, Title: "Not allowed",
		Cause: "This key, account or origin may not do that.",
		Remedy: "`detail` says why. A public key works only on pages of its app's `origins`, and not where a secret key is needed. An account may do " +
			"what its role allows.", Say: ourFaultMessage,
	})
	ScopeMissing = registerProblemKind(ProblemKind{
		Slug: "insufficient-scope", Status: http.StatusForbidden, Title: "Insufficient scope",
		Cause:  "The API key has scopes, but not the one that this request needs.",
		Remedy: "`scope` names it. Use another key, or add the scope to this key's `scopes` in the configuration. Nothing was done.",
		Say:    ourFaultMessage,
	})
	SecretInPage = registerProblemKind(ProblemKind{
		Slug: "secret-key-in-page", Status: http.StatusForbidden, Title: "Secret key in a page",
		Cause: "A page sent a secret key (`sk_…`). Every visitor of the page can read it, and with it send codes and read what was sent.",
		Remedy: "Put the app's public key (`pk_…`) into the page, and the page's origin into the app's `origins`; `sendcode key --kind public` makes a key. " +
			"Use secret keys only in your back end. Replace the secret key: it was published. Nothing was done.", Say: ourFaultMessage,
	})
	NotFound = registerProblemKind(ProblemKind{
		Slug: "not-found", Status: http.StatusNotFound, Title: "Not found",
		Cause: "There is nothing at this address, or nothing for this key.",
		Remedy: "Compare the address with /docs. A verification is also not found if another app opened it, if a back end opened it and you use a public key, or if it was " +
			"erased. If the ID was good before, ask for a new code.",
		Say: "This code is not known any more. Ask for a new one.",
	})
	methodNotAllowed = registerProblemKind(ProblemKind{
		Slug: "method-not-allowed", Status: http.StatusMethodNotAllowed, Title: "Method not allowed",
		Cause:  "This endpoint does not accept the method of the request; the header Allow names those that it accepts.",
		Remedy: "Use one of the methods in `Allow`.", Say: ourFaultMessage,
	})
	conflict = registerProblemKind(ProblemKind{
		Slug: "conflict", Status: http.StatusConflict, Title: "Conflict",
		Cause:  "Another request with the same Idempotency-Key is being worked on.",
		Remedy: "Repeat the same request with the same key after `Retry-After` seconds: it then gets the answer of the first request.",
		Say:    "We are still working on it. One moment.",
	})
	NotDoneKind = registerProblemKind(ProblemKind{
		Slug: "not-done", Status: http.StatusConflict, Title: "Not done",
		Cause:  "The action is not possible any more, or a rule forbids it.",
		Remedy: "`detail` says which. Nothing was done.", Say: ourFaultMessage,
	})
	proofRedeemedKind = registerProblemKind(ProblemKind{
		Slug: "proof-redeemed", Status: http.StatusConflict, Title: "Proof redeemed before",
		Cause: "This proof or reference was already exchanged for the address.",
		Remedy: "You can exchange it only once. If the answer was lost, repeat the request with its own Idempotency-Key. Otherwise it is being used a " +
			"second time: refuse the sign-in.",
		Say: "This sign-in was used already. Please start again.",
	})
	checkedByCallerKind = registerProblemKind(ProblemKind{
		Slug: "caller-checks", Status: http.StatusConflict, Title: "The caller checks this code",
		Cause:  "The caller made this code. The service has sent it, but does not keep it, so the service can't check it or send it again.",
		Remedy: "Compare it where you made it. To send it once more, ask with `code` again, under a new Idempotency-Key. Nothing was done.",
		Say:    ourFaultMessage,
	})
	checkedHereKind = registerProblemKind(ProblemKind{
		Slug: "checked-here", Status: http.StatusConflict, Title: "This service checks this code",
		Cause:  "The service made this code, so its own check decides what becomes of it.",
		Remedy: "Check what the person typed with `/v1/verifications/{id}/check`. Report the outcome only of a code that you brought. Nothing was done.", Say: ourFaultMessage,
	})
	erasedKind = registerProblemKind(ProblemKind{
		Slug: "erased", Status: http.StatusGone, Title: "Erased",
		Cause:  "The recipient was erased in the meantime, so the address is no longer stored.",
		Remedy: "Nothing brings the address back. Have the person ask for a new code.",
		Say:    "Please confirm your address again.",
	})
	keyReused = registerProblemKind(ProblemKind{
		Slug: "idempotency-key-reused", Status: http.StatusUnprocessableEntity,
		Title:  "Idempotency-Key used before",
		Cause:  "This Idempotency-Key came with another request in the last 24 hours.",
		Remedy: "Use a new key for a new request. A repetition has the same key and body, and without `locale` the same Accept-Language. Nothing was done.",
		Say:    ourFaultMessage,
	})
	keyOfOtherCode = registerProblemKind(ProblemKind{
		Slug: "key-of-other-code", Status: http.StatusConflict, Title: "Idempotency-Key of another code",
		Cause:  "The last check of this verification had this Idempotency-Key, and another code or another kind of API key.",
		Remedy: "Make a new key for each code that a person enters, and repeat a check with its own key and code. No try was counted.",
		Say:    ourFaultMessage,
	})
	TooLarge = registerProblemKind(ProblemKind{
		Slug: "too-large", Status: http.StatusRequestEntityTooLarge, Title: "Body too large",
		Cause:  "The body is larger than 16 KiB.",
		Remedy: "Send a smaller body. Events of mail providers may have 1 MiB, receipts of carriers 256 KiB. Nothing was done.",
		Say:    ourFaultMessage,
	})
	UnsupportedMedia = registerProblemKind(ProblemKind{
		Slug: "unsupported-media-type", Status: http.StatusUnsupportedMediaType,
		Title:  "Unsupported media type",
		Cause:  "The body is not application/json, or not in UTF-8.",
		Remedy: "Send `Content-Type: application/json`. Nothing was done.", Say: ourFaultMessage,
	})
	InvalidField = registerProblemKind(ProblemKind{
		Slug: "invalid-field", Status: http.StatusUnprocessableEntity, Title: "Invalid field",
		Cause: "A field has a value that is not accepted.",
		Remedy: "`field` names the field, `reason` is a stable word for what is wrong with it, `detail` says it in a sentence. Nothing was sent or " +
			"counted, and no try of a code was spent.",
		Say: "If `field` is `to` or `code`, show words of your own for each `reason`: This address is not complete. The code has 6 digits. Else: " +
			ourFaultMessage,
	})
	QuotaExceeded = registerProblemKind(ProblemKind{
		Slug: quotahttp.ProblemSlug, Status: http.StatusTooManyRequests, Title: quotahttp.ProblemTitle,
		Cause: "At least one rule has no place left.",
		Remedy: "Wait `retry_after` seconds: a request after that is admitted, and an earlier one is not. `blocked_by` is the rule that blocks longest, " +
			"and `quota` has the state of each rule. A refused request is not counted, and changes no wait. Sends and limits of your own " +
			"have this same type.",
		Say: "The next code can be sent at 14:32 (`retry_after` from now). The last one still works.",
	})
	HumanCheck = registerProblemKind(ProblemKind{
		Slug: "human-check", Status: http.StatusPreconditionRequired, Title: "Human check needed",
		Cause: "This send needs a human check: unknown callers send many requests at the moment, or the check is always required.",
		Remedy: "`human_check` has the vendor (`by`, `site_key`) and a challenge (`work`). Repeat the request with the same Idempotency-Key and the token in " +
			"`human_check`: a vendor's own, or `work:` and the base64 of the solved challenge (ALTCHA, version 1). Or wait `retry_after` seconds, if it is " +
			"there. Nothing was sent or counted.",
		Say: "Please show that you are not a robot, or try again at 14:32.",
	})
	HumanCheckFailed = registerProblemKind(ProblemKind{
		Slug: "human-check-failed", Status: http.StatusUnprocessableEntity, Title: "Human check not passed",
		Cause: "The token of the human check was not accepted.",
		Remedy: "`reason` says why: `used` (by another send), `expired`, `other_host` (made on a page that is not in `hostnames`; the log line has `human_check_host`), `rejected`. Get another token " +
			"for the fresh `human_check`. Nothing was sent or counted.",
		Say: "That did not work. Please try again.",
	})
	TooManyChecks = registerProblemKind(ProblemKind{
		Slug: "too-many-checks", Status: http.StatusTooManyRequests, Title: "Too many failed checks",
		Cause: "Too many wrong codes were entered for this recipient or from this network, so none is compared now.",
		Remedy: "Wait `retry_after` seconds. A new code would give no new tries, so none is sent. Failed checks are counted separately for codes " +
			"that browsers requested and for codes that secret keys requested. Nothing was counted or sent.",
		Say: "Too many wrong codes were entered. Try again at 14:32.",
	})
	TooManyAttempts = registerProblemKind(ProblemKind{
		Slug: "too-many-attempts", Status: http.StatusTooManyRequests, Title: "Too many attempts",
		Cause:  "Too many wrong admin tokens came from your network.",
		Remedy: "Wait as long as `Retry-After` says. A right token is accepted meanwhile.",
		Say:    "Too many attempts. Try again at 14:32.",
	})
	tooManyRequests = registerProblemKind(ProblemKind{
		Slug: "too-many-requests", Status: http.StatusTooManyRequests, Title: "Too many requests",
		Cause: "Browsers of your network made too many requests in the last minute.",
		Remedy: "Wait `retry_after` seconds. Nothing was done, and nothing was counted against a recipient. Requests with a secret key have no such " +
			"limit.",
		Say: "Your network makes too many requests. Try again in a minute.",
	})
	internalError = registerProblemKind(ProblemKind{
		Slug: "internal", Status: http.StatusInternalServerError, Title: "Internal error",
		Cause:  "Something went wrong in the service.",
		Remedy: "Repeat the request later, a send with the same Idempotency-Key. The operator of the service finds the cause in the log by `request_id`.",
		Say:    ourFaultMessage,
	})
	DeliveryFailed = registerProblemKind(ProblemKind{
		Slug: "delivery-failed", Status: http.StatusBadGateway, Title: "Could not be delivered",
		Cause: "The message was refused for good, or not even tried.",
		Remedy: "`send.reason` says why (`rejected`: the mail server or carrier refused it; `suppressed`: the recipient gets no messages for a while; " +
			"`paused`: nothing is sent for now). Unless `send.counts` is true, you can request another code at once.",
		Say: "We could not deliver to this address. Check it for a typing mistake, or use another one.",
	})
	Unavailable = registerProblemKind(ProblemKind{
		Slug: "unavailable", Status: http.StatusServiceUnavailable, Title: "Temporarily unavailable",
		Cause: "The service can't decide this right now. This is not a quota.",
		Remedy: "Repeat the request after `Retry-After` seconds, a send with the same Idempotency-Key. If `may_have_counted` is false, nothing was sent, and " +
			"nothing counts. If it is true, the database did not say whether it took the request. So a send may go out, and a send or a try may " +
			"count. If the database did not take it, its place is given back once the database answers.",
		Say: "Codes can't be sent or checked right now. Please try again in a moment.",
	})
)
