// Package smtp hands one rendered message to a mail server and returns the outcome: accepted,
// rejected, certainly not accepted (temporary), or unknown.
//
// It is the last step of a send: the message is rendered and its row is in the database before
// [Client.Deliver] is called; the caller writes the outcome into the database, refunds, and
// retries. Nothing here retries a message that a server may have received, keeps a queue, or logs.
//
// # Dependencies
//
// The dialogue uses go-mail/smtp (github.com/wneessen/go-mail), and not go-mail's Client. That
// Client joins steps that must stay apart here:
//
//   - It renders while DATA is open.
//   - It sends RSET after an accepted message, and reports a failing RSET as a failed send.
//   - It calls a broken connection "not temporary, code 0", the same as a final refusal.
//   - It may end a session with QUIT while a body is open. Then net/textproto closes the body with
//     a dot, and a cut-off mail is accepted.
//
// These gaps of go-mail/smtp are closed here, each with a test:
//
//   - If the connection breaks within a line, net/textproto takes the part for a whole line, so
//     "550 5." and a reset would be a rejection. replyReader remembers the break, and the reply
//     does not count.
//   - net/textproto refuses a reply without text, such as a bare "250". replyReader adds the
//     missing blank.
//   - Replies have no length limit. countedConn gives each step a bounded number of bytes.
//   - Unencrypted bytes after the reply to STARTTLS are dropped in silence. Here they end the
//     handshake (RFC 3207 section 4.2, CVE-2011-0411 and similar).
//   - Each command waits for the reply to the one before. A server that offers PIPELINING gets
//     MAIL, RCPT and DATA in one write. After it refuses one of them, nothing is sent that it could
//     take for a mail.
//   - A reply that came too early would be taken for the next command's. A step only starts if
//     nothing is unread.
//   - Whether the final dot left this machine is counted on the socket, below TLS: a failed write
//     before it is temporary, and one after it is unknown.
//
// # The outcome
//
//   - [delivery.Temporary]: 4xx, no connection, a TLS failure, and timeouts and cancellation before
//     the final dot.
//   - [delivery.Rejected]: 5xx. Exceptions are replies about the server or us, which are Temporary:
//     greeting, EHLO, STARTTLS, AUTH, and 530, 534, 535, 538 anywhere (RFC 4954 section 6).
//   - [delivery.Unknown]: no readable answer after the dot.
//
// As RFC 5321 section 4.3.2 allows, the first digit of a reply decides.
package smtp
