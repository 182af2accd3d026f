// Package sms hands one text message to a carrier by HTTP and returns the outcome in the classes of
// package delivery: rejected, temporary (certainly not accepted), or unknown.
//
// It has the place of SMTP for mail: the text is rendered and its row is in the database before
// Send is called; the caller writes the outcome, refunds, and retries. Nothing here retries a
// message that a carrier may have received, keeps a queue, or logs.
//
// # A new carrier
//
// If type http (package generic, docs/sms.md) can describe the API, no code is needed. It fills
// placeholders and reads one ID and one code at fixed paths. It can't sign, check a signature,
// probe, or judge several parts. Otherwise write a file of this package that passes
// smstest.Contract. Copy twilio.go and twilio_test.go, or those of tencent if the answer is always
// 200 with a code in it. All carriers share the package: prefix each name at top level with the
// carrier's, and keep unquotedDigits and WebhookSignature where they are. Outside of the package
// only these change:
//
//	internal/run/config/sms.go        {"name", func() sms.CarrierSettings { return new(sms.Name) }} in carrierTypes, and the comment of
//	                              SMSCarrier.Type
//	internal/run/config/example.yaml  and schema.json, by go test ./internal/run/config -run 'TestReference|TestSchema' -update
//	internal/run/config               testdata/full.yaml, which has every setting, testdata/load.txt, and the lists of TestCarriers
//	docs/sms.md                   an example, which a test loads, and a sentence under Receipts
//	README.md, README.zh-CN.md, CHANGELOG.md
//
// The type of its settings implements [CarrierSettings]: its yaml tags and comments become the
// reference, and tests need an endpoint. Setup.Secret is the only secret. If receipts are signed
// with another secret, only the token in their address proves them, as in twilio with an API key.
// The carrier embeds *[Client], implements [Carrier], and adds what its API allows. Where a line
// names settings, they implement an interface, too:
//
//	it sends receipts to the address that the request gives   ReportParser; settings: SettingsWithCallback if it must be given
//	… to an address that is entered once in its console       ReportParser; settings: SettingsWithAccountCallback
//	… that name the message only by the carrier's ID          and the method ReportsUseCarrierID
//	it answers inquiries about a message                      Poller, with smstest.PollContract; settings: CanBePolled is false without
//	it has a request that does no harm                        Probe and EndpointURL, with smstest.ProbeContract
//	it may need a sender of ours                              settings: SettingsWithSender
//	it sends templates that it has approved                   settings embed [Account] (aliyun, tencent)
//
// The interfaces are in carrier.go. If an API needs the coding, call [NeedsUCS2]. If an answer has
// a code for each part of a message, it is a failure only if no part was accepted.
//
// Receipts come by GET or POST; those of GET are in the query of IncomingRequest.URL, beside our
// parameters send and token. Of several receipts for one send, the first final one counts. The
// answer to a receipt is 204 if the reply of ParseReports is empty, else 200 with the reply as
// JSON; 400 for an error, and 403 for ErrForged. Return no error for the request that tests the
// address from a carrier's console. The address is long. If an API does not take that length with a
// message, enter the address once in the console; then the API's own reference carries Message.ID.
//
// Send calls Client.Attempt with a function that reads the answer: the carrier's ID of the message,
// its code, and the failure. For an answer with a code the failure is [errorByCode] with the
// carrier's table of codes.go. The table says whose fault each code is; a code that is missing
// there is MeaningPerNumber. For an answer that can't be read it is [providerhttp.ErrorByStatus].
//
// # What a failure means
//
// These are the meanings in a table:
//
//   - [MeaningBadNumber]: the number gets no text messages. It counts for the rule on failures.
//   - [MeaningRejected]: this message is refused.
//   - [MeaningRefusedNumber]: this number is refused now.
//   - [MeaningOptedOut]: the person asked the carrier for no more. The recipient is suppressed,
//     too.
//   - [MeaningLimited]: too many messages to this recipient. Refused, with a hold, since trying
//     again does not help.
//   - [MeaningTemporary]: our account, template, sender or configuration, for any number. Another
//     carrier may do better.
//   - [MeaningPerNumber]: temporary, but perhaps about this number, such as one without a route.
//     The carrier is set aside only after such answers for numbers of several prefixes.
//   - [MeaningUnreachable]: this carrier certainly cannot reach the number. The next one gets the
//     message, and this one stays in use.
//   - [MeaningUnknown].
//
// Without a code in the table, it matters whether a byte of the request has left this machine
// ([sendcode/internal/deliver/providerhttp]). Before the first byte, every failure is temporary.
// After it, the outcome is unknown unless the answer is as the carrier documents. A server's 500,
// 502 or 504 is not such an answer.
//
// Errors contain no secret, text or number, and of the carrier's words only its code, if that can't
// be a phone number ([providerhttp.SafeErrorCode]).
package sms
