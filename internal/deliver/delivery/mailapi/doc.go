// Package mailapi hands one mail to a provider over HTTPS and says what is known about it
// afterwards, in the classes of package delivery. It stands where package smtp stands: hosts that
// close SMTP's ports leave 443 open.
//
// # A new provider
//
// A provider is one file here, such as resend.go, and one row in providersByScheme. The row has the
// scheme of its URLs, and the function that checks a [Config], fills in its host and returns the
// provider's API. That API makes the request of a mail, reads an answer, and has a harmless
// request, by which `sendcode doctor` tries the login. For a provider that takes MIME, send
// RenderedMail.Content. For one that takes texts, call RenderedMail.Message.WithTexts, and send the
// headers in Message.IDHeaders too, by which events may be found: begin with resend.go. Put the
// send's ID (sendIDOf) where the provider's events bring it back, such as a tag or metadata, also
// if IDHeaders are sent. In readAnswer turn a numeric code into text, and 0 into ""; if accepted
// mails have a code too, accepted is true only with both ID and code. If the login is a key alone,
// it is the URL's password, and a username is refused. Refuse mail.UTF8 if the provider takes ASCII
// alone. As the harmless request choose a read that a key with the least rights may make, and whose
// answer has no secrets.
//
// Its contract is a [mailapitest.Rig], again one file and one row, in Rigs: what a request must
// look like, and what each answer has to become. Its Read returns the mail as it would arrive,
// whose sender and headers the suite compares with the message's. All suites run over every rig: go
// test ./internal/deliver/delivery/... ./internal/deliver/outbox. The key of a rig contains S3cret,
// which the suites look for in failures. Add the default host and a URL without the key to
// TestMailAPIParseURL.
//
// Outside of these places change CHANGELOG.md and docs/configuration.md: the reference by the
// comment of Config.SMTPURL and go test ./internal/run/config -run 'TestReference|TestSchema'
// -update, and the paragraph on providers by hand. If the provider reports events, add its source
// to deploy/provider-events.yaml and docs/provider-events.md. If it signs them in a way of its own,
// add a scheme to internal/deliver/feedback/auth.go; its comment on Auth.Scheme is in the
// reference, too.
//
// # What an answer means
//
// Whether a byte of the request has left this machine is counted
// ([sendcode/internal/deliver/providerhttp]): before, every failure is Temporary; after, only an
// answer that can be read is more than Unknown. codeMeanings says what codes mean; a code that is
// not there counts by its status ([providerhttp.ErrorByStatus]), so a 500 is Unknown even if the
// provider says "try again". What is wrong with our account, key or sender is Temporary, since
// another server may do better.
//
// # Repetition
//
// A provider that knows an idempotency key gets a request of unknown outcome
// again, with the same key and body, to the same server and account: twice, after 1 s and 3 s. The
// key is the send's ID with a hash of the body, since an attempt of the next minute names fewer
// minutes, and a provider refuses a known key with another body. After an unknown outcome only an
// acceptance or a refusal for good counts: a repetition that fails otherwise leaves the mail
// Unknown, and no other server gets it.
package mailapi
