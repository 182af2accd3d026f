package hooks

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"strings"

	"sendcode/internal/recipient"
)

// supabaseBody is what Supabase Auth posts to its hooks Send Email and Send SMS, as far as it is
// read here (github.com/supabase/auth, internal/hooks/v0hooks and internal/mailer).
type supabaseBody struct {
	Metadata struct {
		UUID string `json:"uuid"`
		IP   string `json:"ip_address"`
	} `json:"metadata"`
	User struct {
		Email    string `json:"email"`
		NewEmail string `json:"new_email"`
		Phone    string `json:"phone"`
	} `json:"user"`
	Email struct {
		Action   string `json:"email_action_type"`
		Token    string `json:"token"`
		TokenNew string `json:"token_new"`
	} `json:"email_data"`
	SMS struct {
		OTP   string `json:"otp"`
		Phone string `json:"phone"`
	} `json:"sms"`
}

// ActionSMS is the action of a request of the hook Send SMS, which names none.
const ActionSMS = "sms"

// actionEmailChange is the action of a change of address. The others with a code are signup,
// recovery, invite, magiclink, email and reauthentication; notifications have none.
const actionEmailChange = "email_change"

// parseSupabase reads a body of one of the two hooks. Error: errMalformedBody.
func parseSupabase(channel recipient.Channel, body []byte) (Request, error) {
	var b supabaseBody
	if json.Unmarshal(body, &b) != nil {
		return Request{}, errMalformedBody
	}
	r := Request{ID: b.Metadata.UUID}
	if ip, err := netip.ParseAddr(b.Metadata.IP); err == nil {
		r.IP = ip.Unmap().WithZone("")
	}
	if channel == recipient.SMS {
		phone := cmp.Or(b.SMS.Phone, b.User.Phone)
		if phone == "" || b.SMS.OTP == "" {
			return r, errMalformedBody
		}
		r.Action = ActionSMS
		r.Messages = []codeMessage{{To: "+" + strings.TrimPrefix(phone, "+"), Code: b.SMS.OTP}} // Supabase cuts the plus off
		return r, nil
	}
	r.Action = b.Email.Action
	switch to := b.User.Email; {
	case r.Action == "":
		return r, errMalformedBody
	case b.Email.Token == "" && b.Email.TokenNew == "": // a notification
		return r, nil
	case r.Action == actionEmailChange && b.Email.TokenNew != "": // both addresses have to agree, each by a code of its own
		r.Messages = []codeMessage{{To: to, Code: b.Email.Token}, {To: b.User.NewEmail, Code: b.Email.TokenNew}}
	case r.Action == actionEmailChange:
		r.Messages = []codeMessage{{To: cmp.Or(b.User.NewEmail, to), Code: b.Email.Token}}
	default:
		r.Messages = []codeMessage{{To: to, Code: b.Email.Token}}
	}
	for _, m := range r.Messages {
		if m.To == "" || m.Code == "" {
			return r, errMalformedBody
		}
	}
	return r, nil
}

// supabaseAnswer is the form in which Supabase expects a refusal: with the status 200, and shown to
// the person.
type supabaseAnswer struct {
	Error *supabaseError `json:"error,omitempty"`
}

type supabaseError struct {
	Status  int    `json:"http_code"`
	Message string `json:"message"` // empty would be success
}
