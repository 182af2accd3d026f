// Package sms hands one text message to a carrier by HTTP and returns the outcome in the classes of
// package delivery: rejected, temporary (certainly not accepted), or unknown.
//
// This package does for text messages what package smtp does for mails. Before the caller calls
// Send, it renders the text and writes the message's row into the database. Afterwards the caller
// writes the outcome into the database, and refunds or retries the send if necessary. This package
// never retries a message that a carrier may have received. It keeps no queue and does not log.
//
// # A new carrier
//
// If the carrier type http (package generic, docs/sms.md) can describe the carrier's API, no code
// is needed. That type fills placeholders in a request, and reads one ID and one code from the
// answer at fixed paths. It can't sign requests, check a signature, probe, or evaluate an answer
// with several parts.
//
// For any other API, write a file of this package that passes smstest.Contract. Copy twilio.go and
// twilio_test.go. If the API always answers with the status 200 and a code in the body, copy the
// files of tencent instead. All carriers share the package, so begin each name at top level with
// the name of the carrier. Leave the functions numberDigits and WebhookSignature in twilio.go.
// Outside of the package, change only these files:
//
//	internal/run/config/sms.go        {"name", func() sms.CarrierSettings { return new(sms.Name) }} in carrierTypes, and the comment of
//	                              SMSCarrier.Type
//	internal/run/config/example.yaml  and schema.json, by go test ./internal/run/config -run 'TestReference|TestSchema' -update
//	internal/run/config               testdata/full.yaml, which has every setting, testdata/load.txt, and the lists of TestCarriers
//	docs/sms.md                   an example, which a test loads, and a sentence under Receipts
//	README.md, README.zh-CN.md, CHANGELOG.md
//
// The type of the carrier's settings implements [CarrierSettings]. The reference of the settings is
// made from the yaml tags and comments of that type. The tests need a setting for the endpoint. The
// only secret of a carrier is Setup.Secret. If the carrier signs receipts with another secret,
// their signature can't be checked. In that case only the token in the receipts' address
// authenticates the receipts, as in twilio with an API key.
//
// The type of the carrier embeds *[Client], implements [Carrier], and adds what the API allows. The
// table says what to add for each ability of the API. What follows the word "settings" is an
// interface that the type of the settings must also implement:
//
//	it sends receipts to the address that the request gives   ReportParser; settings: SettingsWithCallback if it must be given
//	… to an address that is entered once in its console       ReportParser; settings: SettingsWithAccountCallback
//	… that name the message only by the carrier's ID          and the method ReportsUseCarrierID
//	it answers inquiries about a message                      Poller, with smstest.PollContract; without a Poller, CanBePolled is false
//	it has a request that does no harm                        Probe and EndpointURL, with smstest.ProbeContract
//	it may need a sender of ours                              settings: SettingsWithSender
//	it sends templates that it has approved                   settings embed [Account] (aliyun, tencent)
//
// The interfaces are in carrier.go. If a request must say how the text is encoded, call
// [NeedsUCS2]. If an answer has a code for each part of a message, the message has failed only if
// no part was accepted.
//
// Receipts come by GET or POST. The data of a GET receipt are in the query of IncomingRequest.URL,
// beside our parameters send and token. If several receipts come for one send, the first final
// receipt counts. The answer to a receipt has the status 204 if ParseReports returns an empty
// reply. Otherwise the answer is 200 with the reply as JSON. If ParseReports returns an error, the
// answer is 400, or 403 for ErrForged. A carrier's console may test the address with a request.
// ParseReports must return no error for that request. The address for receipts is long. If an API
// does not allow so long an address with each message, the operator enters the address once in the
// carrier's console. Write Message.ID into the reference field of each request, so that the receipt
// can name the message.
//
// Send calls Client.Attempt with a function that parses the answer. The function returns the
// carrier's ID of the message, the code, and the failure. If the answer has a code, the failure is
// [errorByCode] with the carrier's table in codes.go. The table has the party at fault for each
// code. A code that is missing in the table means MeaningPerNumber. If the answer can't be parsed,
// the failure is [providerhttp.ErrorByStatus].
//
// # What a failure means
//
// These are the meanings that a code can have in the table:
//
//   - [MeaningBadNumber]: the number gets no text messages. The failure counts for the rule
//     failures.
//   - [MeaningRejected]: this message is refused.
//   - [MeaningRefusedNumber]: this number is refused now.
//   - [MeaningOptedOut]: the person has told the carrier to send no more messages. The recipient is
//     also suppressed.
//   - [MeaningLimited]: this recipient got too many messages. The message is refused and the
//     recipient is put on hold, because another attempt would not help.
//   - [MeaningTemporary]: our account, template, sender or configuration is the cause, for any
//     number. Another carrier may accept the message.
//   - [MeaningPerNumber]: the failure is temporary, but this number may be the cause, for example
//     if it has no route. The carrier is set aside (gets no messages for some time) only after such
//     answers for numbers of several prefixes.
//   - [MeaningUnreachable]: this carrier certainly cannot reach the number. The next carrier gets
//     the message, and this carrier is not set aside.
//   - [MeaningUnknown]: the carrier may have accepted the message.
//
// If an answer has no code from the table, the outcome depends on whether a byte of the request has
// left this machine ([sendcode/internal/deliver/providerhttp]). Before the first byte, every
// failure is temporary. After the first byte, the outcome is unknown unless the carrier documents
// the answer. A server's 500, 502 or 504 is not a documented answer.
//
// Errors contain no secret, text or number. They contain the carrier's code if the code can't be a
// phone number ([providerhttp.SafeErrorCode]). They contain no other words of the carrier.
package sms
