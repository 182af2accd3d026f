// Package smtp hands one rendered message to a mail server and returns the outcome: accepted,
// rejected, certainly not accepted (temporary), or unknown.
//
// This package does the last step of a send. Before the caller calls [Client.Deliver], it renders
// the message and writes the message's row into the database. Afterwards the caller writes the
// outcome into the database, refunds, and retries. This package never retries a message that a
// server may have received. It keeps no queue and does not log.
//
// # Dependencies
//
// The dialogue uses go-mail/smtp (github.com/wneessen/go-mail), and not the Client of go-mail. That
// Client joins steps that must stay separate:
//
//   - It renders while DATA is open.
//   - It sends RSET after an accepted message, and reports a failing RSET as a failed send.
//   - It calls a broken connection "not temporary, code 0", the same as a final refusal.
//   - It may end a session with QUIT while a body is open. Then net/textproto closes the body with
//     a dot, and the server accepts a cut-off mail.
//
// This package closes the following gaps of go-mail/smtp. Each has a test:
//
//   - If the connection breaks within a line, net/textproto returns the part as a whole line. So
//     "550 5." before a reset would be a rejection. replyReader remembers the break, and the reply
//     does not count.
//   - net/textproto refuses a reply without text, such as a bare "250". replyReader adds the
//     missing blank.
//   - Replies have no length limit. countedConn gives each step a bounded number of bytes.
//   - Unencrypted bytes after the reply to STARTTLS are dropped without an error. This package ends
//     the handshake if there are any (RFC 3207 section 4.2, CVE-2011-0411 and similar).
//   - Each command waits for the reply to the command before. If a server offers PIPELINING, this
//     package sends MAIL, RCPT and DATA in one write. If the server refuses one of the three, this
//     package sends nothing that the server could accept as a mail.
//   - If a reply comes too early, it would be read as the reply to the next command. A step starts
//     only if no reply is unread.
//   - go-mail/smtp does not say whether the final dot left this machine. This package counts the
//     bytes on the socket, below TLS. A write that fails before the dot is temporary, and a failure
//     after the dot is unknown.
//
// # The outcome
//
//   - [delivery.Temporary]: 4xx, no connection, a TLS failure, and timeouts and cancellation before
//     the final dot.
//   - [delivery.Rejected]: 5xx. Replies about the server or us are Temporary instead: replies to
//     the greeting, EHLO, STARTTLS and AUTH, and 530, 534, 535, 538 anywhere (RFC 4954 section 6).
//   - [delivery.Unknown]: no readable answer after the dot.
//
// The first digit of a reply decides, as RFC 5321 section 4.3.2 allows.
package smtp
