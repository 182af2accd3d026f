// Package sms hands one text message to a carrier by HTTP and says what is known about it afterwards, in the classes of
// package delivery: rejected, certainly not accepted (temporary), or unknown.
//
// It stands where SMTP stands for mail: the text is rendered and its row is in the log before Send is called; the caller
// writes the outcome, refunds, and retries. Nothing here retries a message that a carrier may have seen, keeps a queue, or
// logs.
//
// Each carrier is a package below this one. It fulfils Settings and Carrier and what else of carrier.go its API allows, is listed in
// carrierTypes (internal/config/sms.go), and passes smstest.Contract.
//
// # What a failure means
//
// What decides is whether a byte of the request has left this machine, counted on the socket below TLS: before, every
// failure is temporary; after, only an answer that can be read as the carrier's documentation has it is more than
// "unknown". A server's 500, 502 or 504 is no such answer. Every connection is used once, since net/http would by itself
// repeat a request on a kept one that broke, and a repeated request is a second message.
//
// Refusals of our account, our templates or our configuration are temporary: the recipient has no part in them, and another
// carrier may do better. A carrier's limit for one recipient is rejected, with Hold: trying again does not get around it.
//
// Errors hold neither the secret, nor the text, nor the number, nor what the carrier wrote: its code, if it looks like one.
package sms
