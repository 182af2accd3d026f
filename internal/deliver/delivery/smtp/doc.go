// Package smtp hands one rendered message to a mail server and says what is known about it
// afterwards: accepted, rejected, certainly not accepted (temporary), or unknown.
//
// It stands at the end of a send: the message is rendered and its row is in the database before
// [Client.Deliver] is called; the caller writes the outcome into the database, refunds, and
// retries. Nothing here retries a message that a server may have seen, keeps a queue, or logs.
//
// # What is built on
//
// The dialogue uses go-mail/smtp (github.com/wneessen/go-mail), and not go-mail's Client, because
// the Client joins steps that must stay apart here: it renders while DATA is open, sends RSET after
// an accepted message and reports a failing RSET as a failed send, calls a broken connection "not
// temporary, code 0" (the same as a refusal for good), and may end a session with QUIT while a body
// is open, upon which net/textproto closes the body with a dot and a cut-off mail is accepted.
//
// What go-mail/smtp leaves open is closed here, each with a test:
//
//   - If the connection breaks within a line, net/textproto takes what came of it for a whole line,
//     so "550 5."
//     and a reset would be a rejection. replyReader remembers the break, and the reply then does not count.
//   - net/textproto refuses a reply without text, such as a bare "250". replyReader adds the
//     missing blank.
//   - Replies have no length limit. countedConn gives each step a bounded number of bytes.
//   - Bytes sent in the clear behind the answer to STARTTLS are dropped in silence. Here they end
//     the
//     handshake (RFC 3207 section 4.2, CVE-2011-0411 and its kin).
//   - Each command waits for the reply to the one before. A server that offers PIPELINING gets
//     MAIL, RCPT and DATA
//     in one write; after it refuses one of them, nothing is sent that it could take for a mail.
//   - A reply that came too early would be taken for the next command's. A step only starts if
//     nothing is unread.
//   - Whether the final dot left this machine is counted on the socket, below TLS, since a failed
//     write
//     before it is temporary and one after it is unknown.
//
// # The outcome
//
// 4xx, no connection, TLS trouble, timeouts and cancellation before the final dot are
// [delivery.Temporary]; 5xx is [delivery.Rejected], except where it is about the server or us and
// not about the message (greeting, EHLO, STARTTLS, AUTH, and 530, 534, 535, 538 anywhere: RFC 4954
// section 6); no readable answer after the dot is [delivery.Unknown]. RFC 5321 section 4.3.2 lets a
// client go by the first digit of a reply, and this one does.
package smtp
