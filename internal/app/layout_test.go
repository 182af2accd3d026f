package app

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/message"
	"sendcode/internal/store"
	"sendcode/templates"
)

// A mail of any of our templates is filled in, and has, to the byte, what building it would have given.
func TestMailsAreTheSameFromTheirForm(t *testing.T) {
	renderer, err := message.New(templates.FS)
	if err != nil {
		t.Fatal(err)
	}
	server := smtptest.Start(t, smtptest.Script{Extensions: []string{"PIPELINING", "8BITMIME"}})
	config, err := smtp.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	sender, err := smtp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	for _, locale := range renderer.Locales("") {
		for _, notify := range []message.Notify{message.Private, message.Glance} {
			for _, code := range []string{"000000", "739154", "BCDFGHJK"} {
				id := uuid.Must(uuid.NewV7())
				p, err := renderer.Prepare(message.Request{Locale: locale, Notify: notify, Data: message.Data{
					App: "Läden & Söhne", Code: code, Minutes: 10, Support: store.SupportReference(id),
				}})
				if err != nil || p.Form == nil {
					t.Fatalf("%s %s: no form: %v", locale, notify, err)
				}
				m := delivery.Message{
					ID: id.String() + "@shop.example", From: "Läden & Söhne <no-reply@shop.example>", To: fmt.Sprintf("ana.%s@example.com", code), Date: time.Now(),
					Subject: p.Subject, Text: p.Text, HTML: p.HTML, Language: p.Language, Marks: map[string]string{"X-Send": id.String()}, Form: p.Form, Fill: p.Fill,
				}
				built := m
				built.Form, built.Fill = nil, ""
				for _, m := range []delivery.Message{m, built} {
					if _, err := sender.Send(t.Context(), m); err != nil {
						t.Fatal(err)
					}
				}
				got := server.Messages()
				if got = got[len(got)-2:]; !bytes.Equal(got[0].Data, got[1].Data) {
					t.Errorf("%s %s: the mail is another:\n%s\nbuilt:\n%s", locale, notify, got[0].Data, got[1].Data)
				}
			}
		}
	}
}
