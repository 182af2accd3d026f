package feedback

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"

	"github.com/google/uuid"
)

func paths(texts ...string) (all []JSONPath) {
	for _, text := range texts {
		p, err := providerhttp.ParseJSONPath(text)
		if err != nil {
			panic(err)
		}
		all = append(all, p)
	}
	return all
}

const id = "0198c1d2-7a54-7a3e-8a4f-0123456789ab"

// general has a format that uses all settings of a format.
var general = Source{Format: EventFormat{
	Type:     paths("kind", "sub"),
	Outcomes: map[string]EventMeaning{"gone": BouncedForGood, "back": Bounced, "back.never": BouncedForGood, "read": Ignored},
	Message:  paths("tag", "headers.message-id"), To: paths("to.0", "to"), Time: paths("at", "when"),
	Detail: paths("code", "why"),
}}

func TestParse(t *testing.T) {
	send := uuid.MustParse(id)
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, c := range map[string]struct {
		event string
		want  Event
	}{
		"all": {
			`{"kind":"back","sub":"never","tag":"` + id +
				`","to":["ana@example.com","bo@example.com"],"at":"2026-03-04T05:06:07Z","code":"550 5.1.1"}`,
			Event{
				Type: "back.never", Meaning: BouncedForGood, Mapped: true, Send: send, To: "ana@example.com", At: at,
				Detail: "550 5.1.1", Words: "550 5.1.1",
			},
		},
		"a longer type": {`{"kind":"back","sub":"soon"}`, Event{Type: "back.soon", Meaning: Bounced, Mapped: true}},
		"no such type":  {`{"kind":"never"}`, Event{Type: "never", Meaning: Ignored}},
		"nothing":       {`{}`, Event{Meaning: Ignored}},
		"a Message-ID":  {`{"headers":{"message-id":"<` + id + `@shop.example>"}}`, Event{Meaning: Ignored, Send: send}},
		"with its HMAC": {
			`{"headers":{"message-id":"<` + id + `.0123456789abcdef0123@shop.example>"}}`,
			Event{Meaning: Ignored, Send: send},
		},
		"the next":        {`{"tag":"x","headers":{"message-id":"` + id + `@shop.example"}}`, Event{Meaning: Ignored, Send: send}},
		"none of ours":    {`{"tag":"urn:uuid:` + id + `","headers":{"message-id":"<1@x>"}}`, Event{Meaning: Ignored}},
		"not even an ID":  {`{"tag":"00000000-0000-0000-0000-000000000000"}`, Event{Meaning: Ignored}},
		"one recipient":   {`{"to":"ana@example.com"}`, Event{Meaning: Ignored, To: "ana@example.com"}},
		"seconds":         {`{"at":1772600767}`, Event{Meaning: Ignored, At: at}},
		"seconds as text": {`{"at":"1772600767.5"}`, Event{Meaning: Ignored, At: at.Add(500 * time.Millisecond)}},
		"another time":    {`{"when":"2026-03-04T06:06:07+01:00"}`, Event{Meaning: Ignored, At: at}},
		"no time":         {`{"at":"yesterday"}`, Event{Meaning: Ignored}},
		"a time too far":  {`{"at":1e300}`, Event{Meaning: Ignored}},
		"codes in words": {
			`{"why":"smtp; 550 5.1.1 <ana@example.com>: no such user (1.2.3.4)"}`,
			Event{Meaning: Ignored, Detail: "550 5.1.1", WordsMeaning: delivery.MissingMailbox, Words: "550 5.1.1 smtp no such user"},
		},
		"words of two parts": {
			`{"code":"552","why":"the mailbox of <ana@example.com> is full"}`,
			Event{Meaning: Ignored, Detail: "552", WordsMeaning: delivery.AnotherReason, Words: "552 the mailbox of is full"},
		},
		"one word":         {`{"code":"","why":"HardBounce"}`, Event{Meaning: Ignored, Detail: "HardBounce", Words: "HardBounce"}},
		"a sentence":       {`{"why":"ana@example.com is away"}`, Event{Meaning: Ignored, Words: "is"}},
		"an address":       {`{"why":"ana@example.com"}`, Event{Meaning: Ignored}},
		"of another shape": {`{"kind":{"a":1},"to":{"b":2},"at":[],"tag":[[1]],"code":null}`, Event{Meaning: Ignored}},
	} {
		got, err := general.Parse([]byte(c.event))
		if err != nil || len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestParseLists(t *testing.T) {
	for body, want := range map[string]string{
		`{"kind":"a"}`: "a", `[{"kind":"c"},{"kind":"a"},{"kind":"b"}]`: "c a b", `[]`: "",
		`{"kind":"` + strings.Repeat(`[\"`, 100) + `"}`: strings.Repeat(`["`, 100), // brackets in a string are not nested lists
	} {
		got, err := general.Parse([]byte(body))
		var kinds []string
		for _, e := range got {
			kinds = append(kinds, e.Type)
		}
		if err != nil || strings.Join(kinds, " ") != want {
			t.Errorf("%s: %v, %v", body, kinds, err)
		}
	}
	for _, bad := range []string{
		``, `{`, `{} {}`, `1`, `null`, `"x"`, `[1]`, `[{},null]`,
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
		"[" + strings.Repeat("{},", maxEvents) + "{}]", strings.Repeat(" ", MaxBodyBytes) + "{}",
	} {
		if got, err := general.Parse([]byte(bad)); !errors.Is(err, errMalformed) {
			t.Errorf("%.20s: %v, %v", bad, got, err)
		}
	}
}

// No body causes a panic or more than maxEvents events. No detail may contain an address, and a
// second call gives the same events.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		mailgun := Source{Auth: Auth{Scheme: SchemeMailgun, Secrets: [][]byte{[]byte(secret)}}}
		if mailgun.Verify(nil, body, now) {
			t.Error("signed by chance")
		}
		got, err := general.Parse(body)
		if err != nil && (!errors.Is(err, errMalformed) || got != nil) {
			t.Fatalf("%v, %v", got, err)
		}
		again, _ := general.Parse(body)
		if len(got) > maxEvents || !slices.Equal(got, again) {
			t.Error("not the same twice, or too many")
		}
		for _, e := range got {
			if strings.ContainsAny(e.Detail, "@<>\r\n\x00") || len(e.Detail) > 40 || e.At.Year() > 9999 ||
				e.Send == uuid.Nil && e.Send.String() == "" {
				t.Errorf("%+v", e)
			}
			if !slices.Contains([]EventMeaning{Ignored, Delivered, Bounced, BouncedForGood, Complained, OptedOut}, e.Meaning) {
				t.Errorf("meaning %q", e.Meaning)
			}
		}
	})
}
