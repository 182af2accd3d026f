package smtptest

import (
	"fmt"
	"time"

	"sendcode/internal/delivery"
)

// What mails of tests hold, and errors must not.
const (
	Recipient = "ada.lovelace@example.org"
	Code      = "493817"
)

// Sample makes a mail with its own Message-ID.
func Sample(n int) delivery.Message {
	return delivery.Message{
		ID:   fmt.Sprintf("send-%d@codes.example", n),
		From: "Codes <no-reply@codes.example>", To: Recipient,
		Subject: "Your code", Language: "en",
		Text: "Your code is\n\n" + Code + "\n", HTML: "<p>Your code is <b>" + Code + "</b></p>",
		Date: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
	}
}
