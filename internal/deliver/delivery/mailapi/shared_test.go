package mailapi

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
)

// texts is a form with a constant subject, and itself as the text.
type texts string

// Texts implements delivery's interface of a form.
func (t texts) Texts(string, string) (subject, text, html string, err error) {
	return "Your code", string(t), "", nil
}

// Every shared field is checked for line breaks. If two mails of one form differ only in a shared
// field, the contents for SMTP and for Resend differ too.
func TestEverySharedFieldIsSent(t *testing.T) {
	others := map[string]string{"From": "Other <other@codes.example>", "Language": "de"}
	resend := Config{Password: "key"}
	var encoder delivery.MailEncoder
	encoded := func(shared delivery.SharedFields) (mail, request []byte, fail *delivery.Error) {
		rendered, fail := encoder.Encode(delivery.Mail{
			MessageID: "send-1@codes.example", To: "ana@example.org", Form: texts("493817\n"),
			Fill: "493817", Date: time.Unix(1, 0), SharedFields: shared,
		})
		if fail != nil {
			return nil, nil, fail
		}
		r, fail := resend.mailRequest(rendered)
		return rendered.Content, r.Body, fail
	}
	usual := delivery.SharedFields{From: "Codes <no-reply@codes.example>", Language: "en"}
	mail, request, fail := encoded(usual)
	if fail != nil {
		t.Fatal(fail)
	}
	for field := range reflect.TypeFor[delivery.SharedFields]().Fields() {
		changed := usual
		value := reflect.ValueOf(&changed).Elem().FieldByIndex(field.Index)
		value.SetString(others[field.Name])
		otherMail, otherRequest, fail := encoded(changed)
		if fail != nil || others[field.Name] == "" || bytes.Equal(mail, otherMail) || bytes.Equal(request, otherRequest) {
			t.Errorf("%s: another value gives the same mail, or %v", field.Name, fail)
		}
		value.SetString(others[field.Name] + "\r\nBcc: x@example.org")
		if _, _, fail := encoded(changed); fail == nil {
			t.Errorf("%s: a line break in it is sent", field.Name)
		}
	}
}
