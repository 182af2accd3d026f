// Package sns verifies the messages of an Amazon SNS topic and confirms a subscription. SNS posts
// the messages to subscribers over HTTPS
// (docs.aws.amazon.com/sns/latest/dg/sns-http-https-endpoint-as-subscriber.html).
//
// A message contains the address of the certificate that verifies its signature, so an attacker
// could name a certificate of their own. For this reason, the address must be on the host of SNS in
// the topic's region, and an authority that the system trusts must have issued the certificate to
// SNS.
//
// Signatures of version 1 are refused. They use SHA-1, for which an attacker can make collisions,
// and foreign mail servers choose parts of the messages that SES publishes. If the topic's
// attribute SignatureVersion is 2, SNS signs by version 2.
package sns

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"
)

type messageKind string

// These are the values of the member Type in messages of SNS.
const (
	Notification             messageKind = "Notification"
	SubscriptionConfirmation messageKind = "SubscriptionConfirmation"
	UnsubscribeConfirmation  messageKind = "UnsubscribeConfirmation"
)

// Message is a message that Topic.Verify has accepted.
type Message struct {
	Kind  messageKind
	Text  string // of a Notification, the published text; of any other message, a sentence by SNS
	token string // confirms the subscription
}

// These constants bound the age of a message. SNS repeats a message for at most an hour
// (docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html). The clocks of SNS and of
// this machine may differ by five minutes.
const (
	maxClockDifference = 5 * time.Minute
	maxAge             = time.Hour + maxClockDifference
)

// ErrForged means that a message does not belong to the topic, is too old, or was not signed by
// SNS. The text of an error that wraps ErrForged describes the problem and contains no text of the
// message.
var ErrForged = errors.New("sns: the message is from another topic")

// ErrOldSignature means that a message has a signature of version 1. It wraps ErrForged.
var ErrOldSignature = newForgedError("its signature has version 1, which uses SHA-1: set the topic's attribute SignatureVersion to 2")

func newForgedError(why string) error { return &forgedError{why} }

type forgedError struct{ why string }

func (e *forgedError) Error() string { return ErrForged.Error() + ": " + e.why }
func (e *forgedError) Unwrap() error { return ErrForged }

// signedMembers are the members that a signature covers, in the order of the signed text. Subject
// is covered only if the message has one.
var signedMembers = map[messageKind][]string{
	Notification:             {"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"},
	SubscriptionConfirmation: {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
	UnsubscribeConfirmation:  {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
}

var arnPattern = regexp.MustCompile(
	`^arn:(aws|aws-cn|aws-us-gov):sns:([a-z]{2}(?:-[a-z]+)+-[0-9]):[0-9]{12}:[A-Za-z0-9_-]{1,256}$`)

// IsTopic reports whether arn is the ARN of a topic that can post to HTTPS subscribers. A FIFO
// topic can't.
func IsTopic(arn string) bool { return arnPattern.MatchString(arn) }

// Verify verifies a message and returns its content. If the message is not genuine, the error wraps
// ErrForged. Any other error means that the certificate can't be fetched now. After such an error,
// the caller should let SNS send the message again.
func (t *Topic) Verify(ctx context.Context, body []byte, now time.Time) (Message, error) {
	m, err := parseMembers(body)
	if err != nil {
		return Message{}, err
	}
	at, err := time.Parse(time.RFC3339, m["Timestamp"])
	signature, signatureErr := base64.StdEncoding.DecodeString(m["Signature"])
	kind := messageKind(m["Type"])
	switch {
	case m["TopicArn"] == "":
		return Message{}, newForgedError("the message names no topic: turn raw message delivery off")
	case m["TopicArn"] != t.arn:
		return Message{}, newForgedError("another topic")
	case signedMembers[kind] == nil:
		return Message{}, newForgedError("an unknown type")
	case err != nil || at.Before(now.Add(-maxAge)) || at.After(now.Add(maxClockDifference)):
		return Message{}, newForgedError("not of this hour")
	case m["SignatureVersion"] == "1":
		return Message{}, ErrOldSignature
	case m["SignatureVersion"] != "2" || signatureErr != nil:
		return Message{}, newForgedError("no signature")
	}
	key, err := t.signingKey(ctx, m["SigningCertURL"], now)
	if err != nil {
		return Message{}, err
	}
	hash := sha256.Sum256([]byte(textToSign(m)))
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, hash[:], signature) != nil {
		return Message{}, newForgedError("another signature")
	}
	return Message{Kind: kind, Text: m["Message"], token: m["Token"]}, nil
}

// parseMembers returns those of neededMembers that are strings. It does not decode other members,
// because the message is not verified yet. textToSign joins members with line breaks, so a line
// break inside a member could imitate a further member. For this reason, parseMembers refuses line
// breaks in every member except Message.
func parseMembers(body []byte) (map[string]string, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, newForgedError("no JSON")
	}
	texts, value := map[string]string{}, json.RawMessage{}
	for n := 0; d.More(); n++ {
		key, err := d.Token()
		if n >= maxMembers || err != nil || d.Decode(&value) != nil {
			return nil, newForgedError("no JSON")
		}
		name, text := key.(string), ""
		if !neededMembers[name] {
			continue
		}
		ok := value[0] == '"' && json.Unmarshal(value, &text) == nil
		if ok && name != "Message" && strings.ContainsAny(text, "\r\n") {
			return nil, newForgedError("a field with several lines")
		}
		if ok {
			texts[name] = text
		}
	}
	if _, err := d.Token(); err != nil || d.More() {
		return nil, newForgedError("no JSON")
	}
	return texts, nil
}

// maxMembers bounds the members of a message; SNS's messages have at most eleven.
const maxMembers = 32

// neededMembers has the names of the signed members, and of the members with the signature, its
// version and the certificate's address.
var neededMembers = func() map[string]bool {
	needed := map[string]bool{"SignatureVersion": true, "Signature": true, "SigningCertURL": true}
	for _, names := range signedMembers {
		for _, name := range names {
			needed[name] = true
		}
	}
	return needed
}()

func textToSign(m map[string]string) string {
	var all strings.Builder
	for _, name := range signedMembers[messageKind(m["Type"])] {
		if value, given := m[name]; given || name != "Subject" {
			all.WriteString(name + "\n" + value + "\n")
		}
	}
	return all.String()
}
