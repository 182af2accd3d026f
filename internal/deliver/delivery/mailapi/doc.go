// Package mailapi hands one mail to a provider over HTTPS and returns the outcome in the classes of
// package delivery. It has the place of package smtp: hosts that close SMTP's ports leave 443 open.
//
// # A new provider
//
// A provider is one file here, such as resend.go, and one row in providersByScheme. The row has the
// scheme of its URLs, and a function that checks a [Config], fills in its host and returns the
// provider's API. The API makes the request of a mail, reads an answer, and has a harmless request,
// with which `sendcode doctor` tries the login.
//
//   - If the provider takes MIME, send RenderedMail.Content.
//   - If it takes texts, call RenderedMail.Message.WithTexts, and send the headers in
//     Message.IDHeaders, so that events can be found. Begin with resend.go.
//   - Put the send's ID (sendIDOf) where the provider's events return it, such as a tag or
//     metadata, even if IDHeaders are sent.
//   - In readAnswer turn a numeric code into text, and 0 into "". If accepted mails have a code
//     too, accepted is true only with both ID and code.
//   - If the login is only a key, it is the URL's password, and a username is refused.
//   - Refuse mail.UTF8 if the provider takes only ASCII.
//   - The harmless request is a read that a key with the least rights may make. Its answer has no
//     secrets.
//
// Its contract is a [mailapitest.Rig], again one file and one row, in Rigs: the expected request,
// and the outcome of each answer. Its Read returns the mail as it would arrive; the suite compares
// sender and headers with the message's. All suites run over every rig: go test
// ./internal/deliver/delivery/... ./internal/deliver/outbox. The key of a rig contains S3cret,
// which the suites look for in failures. Add the default host and a URL without the key to
// TestMailAPIParseURL.
//
// Elsewhere change CHANGELOG.md and docs/configuration.md: the reference by the comment of
// Config.SMTPURL and go test ./internal/run/config -run 'TestReference|TestSchema' -update, and the
// paragraph on providers by hand. If the provider reports events, add its source to
// deploy/provider-events.yaml and docs/provider-events.md. If it signs them in a way of its own,
// add a scheme to internal/deliver/feedback/auth.go; the comment on Auth.Scheme is in the
// reference, too.
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
// If a provider knows idempotency keys, a request of unknown outcome is repeated with the same key
// and body, to the same server and account: twice, after 1 s and 3 s. The key is the send's ID with
// a hash of the body: an attempt of the next minute names fewer minutes, and a provider refuses a
// known key with another body. After an unknown outcome only an acceptance or a final refusal
// counts. A repetition that fails otherwise leaves the mail Unknown, and no other server gets it.
package mailapi
