// Package mailapi sends one mail to Resend over HTTPS and returns the outcome in the classes of
// package delivery. It can replace package smtp at hosting providers that block the ports of SMTP
// but not port 443. The test package [mailapitest] has the expected request and the outcome of each
// answer.
//
// # What an answer means
//
// The outcome depends on whether a byte of the request has left this machine.
// [sendcode/internal/deliver/providerhttp] observes this. Before the first byte, every failure is
// Temporary. After the first byte, the outcome is Unknown unless the answer can be read.
// codeMeanings has the meanings of codes. For a code that codeMeanings lacks, the HTTP status
// decides ([providerhttp.ErrorByStatus]). So a 500 is Unknown even if the provider says "try
// again". A fault of our account, key or sender is Temporary, because another server may accept the
// mail.
//
// # Repetition
//
// Resend supports idempotency keys. A request with an unknown outcome is repeated twice, after 1 s
// and 3 s. Each repetition has the same key and body, and goes to the same server and account.
//
// The key is the send's ID with a hash of the body. The hash is necessary because the body of a
// later attempt may show fewer minutes, and Resend refuses a known key with another body.
//
// After an unknown outcome, only an acceptance or a final refusal decides. If a repetition fails in
// another way, the mail stays Unknown, and no other server gets it.
package mailapi
