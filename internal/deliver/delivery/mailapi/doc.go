// Package mailapi hands one mail to Resend over HTTPS and returns the outcome in the classes of
// package delivery. It has the place of package smtp: hosts that close SMTP's ports leave 443 open.
// Its kit for tests, [mailapitest], has the expected request and the outcome of each answer.
//
// # What an answer means
//
// [sendcode/internal/deliver/providerhttp] counts whether a byte of the request has left this
// machine. Before the first byte, every failure is Temporary. After it, the outcome is Unknown
// unless the answer can be read. codeMeanings has the meanings of codes. A code that is missing
// there counts by its status ([providerhttp.ErrorByStatus]), so a 500 is Unknown even if the
// provider says "try again". A fault of our account, key or sender is Temporary, since another
// server may do better.
//
// # Repetition
//
// Resend knows idempotency keys: a request of unknown outcome is repeated with the same key and
// body, to the same server and account: twice, after 1 s and 3 s. The key is the send's ID with a
// hash of the body: an attempt of the next minute names fewer minutes, and a provider refuses a
// known key with another body. After an unknown outcome only an acceptance or a final refusal
// counts. A repetition that fails otherwise leaves the mail Unknown, and no other server gets it.
package mailapi
