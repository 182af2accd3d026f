package smtptest

import (
	"fmt"
	"slices"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/kit/servertest"
)

// Message is one message that the server accepted: it read the final dot, and did not answer 4xx or
// 5xx to it.
type Message struct {
	// ID is the Message-ID without angle brackets.
	ID string
	// From and To are the addresses of the envelope.
	From string
	To   []string
	// Data is the message as the server received it, without dot-stuffing. Its lines end in CRLF.
	Data []byte
	// At is the time of arrival.
	At time.Time
}

// record is what the server has received on all connections. Server.mu guards it.
type record struct {
	messages      []Message
	commands      []string
	partial       int
	opened        int
	messageLanded chan struct{} // closed and replaced at each message
}

// locked calls f while it holds the lock of the record and of the script.
func (s *Server) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Messages returns the accepted messages, oldest first.
func (s *Server) Messages() (messages []Message) {
	s.locked(func() { messages = slices.Clone(s.messages) })
	return messages
}

// ByID counts the accepted messages by Message-ID.
func (s *Server) ByID() map[string]int {
	counts := map[string]int{}
	for _, m := range s.Messages() {
		counts[m.ID]++
	}
	return counts
}

// Commands returns the command lines of all connections in the order of arrival. It leaves out
// answers to AUTH challenges and the lines of messages.
func (s *Server) Commands() (commands []string) {
	s.locked(func() { commands = slices.Clone(s.commands) })
	return commands
}

// Connections returns how many connections were opened so far.
func (s *Server) Connections() int { return s.number(func() int { return s.opened }) }

// Open returns the number of open connections. A connection that the client closed counts until the
// server notices.
func (s *Server) Open() int { return s.number(func() int { return len(s.conns) }) }

// Partial returns how many messages began without reaching their final dot.
func (s *Server) Partial() int { return s.number(func() int { return s.partial }) }

func (s *Server) number(read func() int) (n int) {
	s.locked(func() { n = read() })
	return n
}

// Await waits until the server has accepted n messages, and fails the test if that takes too long.
func (s *Server) Await(n int) []Message {
	s.tb.Helper()
	limit := time.After(servertest.Patience)
	for {
		var landed chan struct{}
		s.locked(func() { landed = s.messageLanded })
		messages := s.Messages()
		if len(messages) >= n {
			return messages
		}
		select {
		case <-landed:
		case <-limit:
			s.tb.Fatalf("smtptest: %d messages accepted, want %d", len(messages), n)
		}
	}
}

func (s *Server) accept(m Message) {
	s.locked(func() {
		s.messages = append(s.messages, m)
		close(s.messageLanded)
		s.messageLanded = make(chan struct{})
	})
}

// Mails of tests contain these texts, and errors must not contain them.
const (
	Recipient = "ada.lovelace@example.org"
	Code      = "493817"
)

// Sample returns a mail. Only the Message-ID depends on n.
func Sample(n int) delivery.Mail {
	return delivery.Mail{
		MessageID: fmt.Sprintf("send-%d.0123456789abcdef0123@codes.example", n), To: Recipient, Subject: "Your code",
		SharedFields: delivery.SharedFields{From: "Codes <no-reply@codes.example>", Language: "en"},
		Text:         "Your code is\n\n" + Code + "\n", HTML: "<p>Your code is <b>" + Code + "</b></p>",
		Date: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
	}
}
