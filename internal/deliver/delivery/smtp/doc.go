// Package smtp hands one rendered message to a mail server. It never retries a message that a
// server may have received, and does not log. The first digit of a reply decides, as RFC 5321
// section 4.3.2 allows. The error of a failed attempt is one of these:
//
//   - [delivery.Temporary]: 4xx, no connection, a TLS failure, and timeouts and cancellation before
//     the final dot.
//   - [delivery.Rejected]: 5xx. Replies about the server or us are Temporary instead: replies to
//     the greeting, EHLO, STARTTLS and AUTH, 530, 534, 535, 538 anywhere (RFC 4954 section 6), and
//     replies from RCPT on that say that mails come too fast.
//   - [delivery.Unknown]: no answer after the dot, or one that can't be read or doesn't fit.
//
// The dialogue uses go-mail/smtp, but not go-mail's Client. docs/ARCHITECTURE.md says why, and
// which of its gaps are closed here.
package smtp
