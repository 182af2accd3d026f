package authhooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/netip"
	"strings"

	"sendcode/internal/base/recipient"
)

// supabaseBody is the body that Supabase Auth posts to its hooks Send Email and Send SMS. It has
// only the fields that this package reads. The source is github.com/supabase/auth, in
// internal/http/hooks/v0hooks and internal/mailer, or before v2.170 in
// internal/http/hooks/auth_hooks.go. SMS is nil in a body of Send Email, and Email is nil in a body
// of Send SMS.
type supabaseBody struct {
	Metadata struct { // since v2.187
		UUID text `json:"uuid"`
		IP   text `json:"ip_address"`
	} `json:"metadata"`
	User struct {
		Email    text `json:"email"`
		NewEmail text `json:"new_email"` // like NewPhone, it may remain from an earlier change that was not confirmed
		Phone    text `json:"phone"`
		NewPhone text `json:"new_phone"`
		Factors  []struct {
			Phone text `json:"phone"`
		} `json:"factors"`
	} `json:"user"`
	Email *struct {
		Action   text `json:"email_action_type"`
		Token    text `json:"token"`
		TokenNew text `json:"token_new"`
	} `json:"email_data"`
	SMS *struct {
		OTP   text `json:"otp"`
		Type  text `json:"sms_type"`
		Phone text `json:"phone"` // since v2.180: the number that the code is for
	} `json:"sms"`
}

// text holds a JSON string without the blanks around it, or the digits of a JSON number. null and
// values of other types become the empty text, so that one unexpected field does not make the whole
// body unreadable.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil && !bytes.ContainsFunc(b, func(r rune) bool { return r < '0' || r > '9' }) {
		s = string(b)
	}
	*t = text(strings.TrimSpace(s))
	return nil
}

// ActionSMS is the action of a request of the hook Send SMS. Such a request names no action.
const ActionSMS = "sms"

// These are the values of email_action_type that are treated in a special way. A request whose
// value ends in notificationSuffix has no code. With any other value, such as signup or recovery,
// the code is for user.email.
const (
	actionEmailChange    = "email_change"
	actionEmailChangeNew = "email_change_new"
	notificationSuffix   = "_notification"
)

// parseSupabase reads a body of one of the two hooks. Error: errMalformedBody.
func parseSupabase(channel recipient.Channel, body []byte) (Request, error) {
	var b supabaseBody
	if json.Unmarshal(body, &b) != nil || channel == recipient.SMS && b.SMS == nil || channel == recipient.Email && b.Email == nil {
		return Request{}, errMalformedBody
	}
	r := Request{ID: string(b.Metadata.UUID), Action: ActionSMS}
	if ip, err := netip.ParseAddr(string(b.Metadata.IP)); err == nil {
		r.IP = ip.Unmap().WithZone("")
	}
	if channel == recipient.SMS {
		r.addOrMarkMissing(b.number(), b.SMS.OTP)
		return r, nil
	}
	r.Action = string(b.Email.Action)
	switch email, user := b.Email, b.User; {
	case strings.HasSuffix(r.Action, notificationSuffix):
	case r.Action == "":
		r.markMissing("what the code is for")
	case r.Action != actionEmailChange && r.Action != actionEmailChangeNew:
		r.addOrMarkMissing(user.Email, email.Token)
	default:
		if user.Email != "" && email.Token != "" && email.TokenNew != "" { // both addresses must confirm the change, each by its own code
			r.addOrMarkMissing(user.Email, email.Token)
		}
		r.addOrMarkMissing(user.NewEmail, cmp.Or(email.TokenNew, email.Token)) // before v2.175 a body may have neither token
	}
	return r, nil
}

// number returns the phone number to which the code must be sent. If the number is not known, the
// result is empty. Since v2.180 the body contains the number. In an older body, number returns the
// user's new number if there is one, because such a body does not show whether the user changes the
// number or logs in. For a second factor, it returns the number that all factors have in common.
func (b supabaseBody) number() (n text) {
	const mfa = "mfa"
	switch {
	case b.SMS.Phone != "":
		n = b.SMS.Phone
	case b.SMS.Type != mfa:
		n = cmp.Or(b.User.NewPhone, b.User.Phone)
	default:
		for _, f := range b.User.Factors {
			if n != "" && f.Phone != "" && f.Phone != n {
				return ""
			}
			n = cmp.Or(f.Phone, n)
		}
	}
	if n != "" && !strings.Contains(string(n), "+") { // Supabase removes the plus
		n = "+" + n
	}
	return n
}

// addOrMarkMissing adds a message, unless the body lacks its recipient or its code.
func (r *Request) addOrMarkMissing(to, code text) {
	switch {
	case code == "":
		r.markMissing("which code to send")
	case to == "":
		r.markMissing("where to send the code")
	case r.Missing == "":
		r.Messages = append(r.Messages, codeMessage{To: string(to), Code: string(code)})
	}
}

// markMissing removes the messages, and sets Missing to a sentence with the words in what.
func (r *Request) markMissing(what string) {
	r.Messages = nil
	r.Missing = "The sign-in service did not say " + what + ", so nothing was sent. Please tell the people who run this site."
}

// supabaseAnswer is the body of an answer to Supabase. A refusal has the HTTP status 200 and an
// error in the body. Supabase shows the error to the person.
type supabaseAnswer struct {
	Error *supabaseError `json:"error,omitempty"`
}

type supabaseError struct {
	Status  int    `json:"http_code"`
	Message string `json:"message"` // empty would be success
}
