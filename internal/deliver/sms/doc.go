// Package sms hands a text message to a carrier by HTTP and returns the outcome in the classes of
// package delivery: rejected, temporary (certainly not accepted) or unknown. It never repeats a
// message that a carrier may have received. Rows, retries and refunds are up to its caller.
//
// carrier.go has the interfaces, and routes.go chooses among several carriers. A carrier is a file
// here, with its codes in codes.go, or settings of package generic. docs/ARCHITECTURE.md says how
// to add one.
//
// If an answer has no code that is in codes.go, it matters whether a byte of the request has left
// this machine ([sendcode/internal/deliver/providerhttp]). Before that, every failure is temporary.
// After it, the outcome is unknown unless the carrier documents the answer, which isn't so for a
// server's 500, 502 or 504.
//
// Errors contain no secret, text or number. Of the carrier's words they contain only its code,
// unless that might be a phone number ([providerhttp.SafeErrorCode]).
package sms
