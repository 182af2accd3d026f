// Package sms hands a text message to a carrier by HTTP and returns the outcome in the classes of
// package delivery: rejected, temporary (certainly not accepted) or unknown. It never repeats a
// message that a carrier may have received. Rows, retries and refunds are up to its caller.
//
// carrier.go has the interfaces, and routes.go chooses among several carriers. A carrier is a file
// here, with its codes in codes.go, or settings of package generic. docs/ARCHITECTURE.md says how
// to add one.
//
// If no answer comes, it matters whether a byte of the request has left this machine
// ([sendcode/internal/deliver/providerhttp]). Before that, every failure is temporary. After it,
// the outcome is unknown. A code that is missing in codes.go means a temporary failure. For an
// answer without a code, the HTTP status decides; a 500, 502 or 504 is unknown.
//
// Errors contain no secret, text or number. Of the carrier's words they contain only its code,
// unless that might be a phone number ([providerhttp.SafeErrorCode]).
package sms
