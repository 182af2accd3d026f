// Package sms hands one text message to a carrier by HTTP and says what is known about it
// afterwards, in the classes of package delivery: rejected, temporary (certainly not accepted), or
// unknown.
//
// It stands where SMTP stands for mail: the text is rendered and its row is in the database before
// Send is called; the caller writes the outcome, refunds, and retries. Nothing here retries a
// message that a carrier may have seen, keeps a queue, or logs.
//
// # A new carrier
//
// Where type http (package generic, docs/sms.md) can describe the API, no code is needed: it
// fills placeholders and reads one ID and one code at fixed paths. It can't sign, check a
// signature, probe, or judge several parts. Else a carrier is a file of this package, which passes
// smstest.Contract. Copy twilio.go and twilio_test.go, or those of tencent if the answer is always
// 200 with a code in it. All carriers share the package: give each name at top level the carrier's,
// and keep unquotedDigits and WebhookSignature where they are. Outside of the package only these
// change:
//
//	internal/run/config/sms.go        {"name", func() sms.CarrierSettings { return new(sms.Name) }} in carrierTypes, and the comment of
//	                              SMSCarrier.Type
//	internal/run/config/example.yaml  and schema.json, by go test ./internal/run/config -run 'TestReference|TestSchema' -update
//	internal/run/config               testdata/full.yaml, which has every setting, testdata/load.txt, and the lists of TestCarriers
//	docs/sms.md                   an example, which a test loads, and a sentence under Receipts
//	README.md, README.zh-CN.md, CHANGELOG.md
//
// The type of its settings implements [CarrierSettings]: its yaml tags and comments become the
// reference, and tests need an endpoint. Setup.Secret is the only secret: where signatures of
// receipts have another one, the token in their address alone proves them, as in twilio with an API
// key. The carrier embeds *[Client], implements [Carrier], and adds what its API allows; so do the
// settings, where the line says so:
//
//	it sends receipts to the address that the request gives   ReportParser; settings: SettingsWithCallback if it must be given
//	… to an address that is entered once in its console       ReportParser; settings: SettingsWithAccountCallback
//	… that name the message only by the carrier's ID          and the method ReportsUseCarrierID
//	it answers what became of a message                       Poller, with smstest.PollContract; settings: CanBePolled is false without
//	it has a request that does no harm                        Probe and EndpointURL, with smstest.ProbeContract
//	it may need a sender of ours                              settings: SettingsWithSender
//	it sends templates that it has approved                   settings embed [Account] (aliyun, tencent)
//
// The interfaces are in carrier.go. If an API must be told the coding, ask [NeedsUCS2]. If an
// answer has a code for each part of a message, it is a failure only if no part was accepted.
//
// Receipts come by GET or POST; those of GET are in the query of IncomingRequest.URL, beside our
// parameters send and token. Of several receipts for one send, the first final one counts. The
// answer to a receipt is 204 if the reply of ParseReports is empty, else 200 with the reply as
// JSON; 400 for an error, and 403 for ErrForged. Return no error for the request by which a
// carrier's console tests the address. The address is long: if an API takes none of that length
// with a message, it is entered once in the console, and the API's own reference carries
// Message.ID.
//
// Send calls Client.Attempt with a function that reads the answer: the carrier's ID of the message,
// its code, and the failure. For an answer with a code that is [errorByCode], with the carrier's
// table of codes.go, which says whose fault each code is: a code that is not there is
// MeaningPerNumber. An answer that can't be read is [providerhttp.ErrorByStatus].
//
// # What a failure means
//
// The meanings in a table are [MeaningBadNumber] (the number gets no text messages: it counts for
// the rule on failures), [MeaningRejected] (this message), [MeaningRefusedNumber] (this number,
// now), [MeaningOptedOut] (the person asked the carrier for no more: it also suppresses the
// recipient), [MeaningLimited] (too many messages to this recipient: refused, with a hold, since
// trying again does not get around it), [MeaningTemporary] (our account, template, sender or
// configuration, whatever the number: another carrier may do better), [MeaningPerNumber]
// (temporary, too, but it may be about this number, as one without a route: the carrier is set
// aside only after such answers for numbers of several prefixes), [MeaningUnreachable] (this
// carrier certainly cannot reach the number: the next one gets the message, and nothing is held
// against this one) and [MeaningUnknown].
//
// Without a code in the table, what decides is whether a byte of the request has left this machine
// ([sendcode/internal/deliver/providerhttp]): before, every failure is temporary; after, only an
// answer that can be read as the carrier's documentation has it is more than "unknown". A server's
// 500, 502 or 504 is no such answer.
//
// Errors hold neither the secret, nor the text, nor the number, nor what the carrier wrote: only
// its code, if it can't be a phone number ([providerhttp.SafeErrorCode]).
package sms
