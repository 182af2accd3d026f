// Package mailapi sends one mail to Resend over HTTPS and returns the outcome in the classes of
// package delivery. It can replace package smtp at hosting providers that block the ports of SMTP
// but not port 443. [mailapitest] has the expected request and the outcome of each answer.
//
// Until a byte of the request has left this machine, every failure of the request is Temporary
// ([sendcode/internal/deliver/providerhttp] observes this). Later, the outcome is Unknown unless
// the answer can be read. codeMeanings has the meanings of codes; for other codes the HTTP status
// decides ([providerhttp.ErrorByStatus]), so a 500 is Unknown. A fault of our account, key or
// sender is Temporary, because another server may accept the mail.
//
// A request with an unknown outcome is repeated at most twice, after pauses of 1 s and 3 s, with
// the same key and body. The key is the send's ID with a hash of the body, because Resend refuses a
// known key with another body, and a later attempt may name fewer minutes. Only an acceptance or a
// final refusal then decides. Otherwise the mail stays Unknown, and no other server gets it.
package mailapi
