package sms

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/delivery"
)

func must(t *testing.T) func(Carrier, error) Carrier {
	return func(c Carrier, err error) Carrier {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

func extract(text string) Extract {
	e, err := ParseExtract(text)
	if err != nil {
		panic(err)
	}
	return e
}

// describedRig is a rig over a description.
type describedRig struct {
	rig
	description func(endpoint string) Generic
}

func genericRig() describedRig { return newGenericRig() }

func newGenericRig() describedRig {
	description := func(endpoint string) Generic {
		return Generic{
			Name: "rest", Secret: private, Method: "POST", URL: endpoint + "/v1/{country}/messages", User: "shop", Format: FormatJSON,
			Header: map[string]string{"Idempotency-Key": "{id}", "X-Key": "{secret}"},
			Body:   `{"to": "{to}", "from": "{sender}", "text": "{text}", "left": {minutes}, "cb": "{callback}"}`,
			Answer: Answer{
				ID: extract("$.messages.0.id"), Code: extract("$.messages.0.status"), Accepted: []string{"0"},
				Codes:    map[string]string{"1": "temporary", "6": "rejected", "7": "opted_out", "8": "unknown", "9": "limit 60s"},
				Statuses: map[string]string{"404": "rejected", "203": "temporary"},
			},
		}
	}
	answer := func(code string) string {
		return `{"messages": [{"id": "msg-1", "status": ` + code + `, "error": "` + private + ` 739154"}]}`
	}
	r := rig{
		name: "generic", id: "msg-1", taken: said{202, answer(`"0"`)},
		token: func(r *http.Request, _ string) string { return r.Header.Get("Idempotency-Key") },
		cases: map[string]outcome{
			"rejected":                {said{200, answer(`"6"`)}, delivery.Rejected, "", 0},
			"temporary":               {said{200, answer(`1`)}, delivery.Temporary, "", 0},
			"unknown":                 {said{200, answer(`"8"`)}, delivery.Unknown, "", 0},
			"limit":                   {said{200, answer(`"9"`)}, delivery.Rejected, ReasonLimit, time.Minute},
			"opted out":               {said{400, answer(`"7"`)}, delivery.Rejected, ReasonOptOut, 0},
			"a code that is not told": {said{200, answer(`"77"`)}, delivery.Temporary, "", 0},
			"a status that is told":   {said{404, "no"}, delivery.Rejected, "", 0},
			"a success that is none":  {said{203, answer(`"0"`)}, delivery.Temporary, "", 0},
			"a plain 400":             {said{400, "no"}, delivery.Rejected, "", 0},
			"a plain 403":             {said{403, "no"}, delivery.Temporary, "", 0},
			"a code beside a 400":     {said{400, answer(`1`)}, delivery.Temporary, "", 0},
			"zero beside a 400":       {said{400, answer(`"0"`)}, delivery.Rejected, "", 0},
		},
	}
	r.make = func(t *testing.T, endpoint string) Carrier { return must(t)(NewGeneric(description(endpoint))) }
	r.check = func(r *http.Request, body string) error {
		var got map[string]any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			return err
		}
		m := sample()
		for key, want := range map[string]any{"to": m.To, "from": m.Sender, "text": m.Text, "left": 9.0, "cb": m.Callback} {
			if got[key] != want {
				return fmt.Errorf("%s is %v", key, got[key])
			}
		}
		user, password, _ := r.BasicAuth()
		if user != "shop" || password != private || r.Header.Get("X-Key") != private || r.URL.Path != "/v1/CN/messages" || r.Method != "POST" {
			return fmt.Errorf("%s %s, user %q", r.Method, r.URL.Path, user)
		}
		if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
			return fmt.Errorf("content type %q", kind)
		}
		return nil
	}
	return describedRig{r, description}
}

// kannelDescription is the one in docs/configuration.md, with receipts.
func kannelDescription(endpoint string) Generic {
	return Generic{
		Name: "kannel", Secret: private, Method: "GET",
		URL: endpoint + "/cgi-bin/sendsms?username=sendcode&password={secret}&from={sender}&to={to}&text={text}&charset=UTF-8&coding={coding}" +
			"&dlr-mask=19&dlr-url={callback}%26status=%25d",
		Answer: Answer{Match: regexp.MustCompile(`^(0: Accepted|3: Queued)`), Statuses: map[string]string{"404": "temporary"}},
	}
}

func kannelRig() rig {
	return rig{
		name: "kannel", taken: said{202, "0: Accepted for delivery"},
		make: func(t *testing.T, endpoint string) Carrier { return must(t)(NewGeneric(kannelDescription(endpoint))) },
		check: func(r *http.Request, body string) error {
			q, err := url.ParseQuery(r.URL.RawQuery)
			if err != nil {
				return err
			}
			m := sample()
			for key, want := range map[string]string{
				"username": "sendcode", "password": private, "from": m.Sender, "to": m.To, "text": m.Text, "coding": "0", "dlr-url": m.Callback + "&status=%d",
			} {
				if q.Get(key) != want {
					return fmt.Errorf("%s is %q", key, q.Get(key))
				}
			}
			if r.Method != "GET" || body != "" {
				return fmt.Errorf("%s with a body of %d bytes", r.Method, len(body))
			}
			return nil
		},
		cases: map[string]outcome{
			"bad number":      {said{400, "Number(s) has/have been denied by white- and/or black-lists."}, delivery.Rejected, "", 0},
			"our password":    {said{403, "Authorization failed for sendsms"}, delivery.Temporary, "", 0},
			"its bearer away": {said{503, "Temporal failure, try again later."}, delivery.Temporary, "", 0},
			"no route":        {said{404, "Temporal failure"}, delivery.Temporary, "", 0},
		},
	}
}

func TestFormBodies(t *testing.T) {
	var got url.Values
	r := rig{check: func(r *http.Request, body string) (err error) {
		got, err = url.ParseQuery(body)
		return err
	}}
	f := newFake(t, r, says(said{200, ""}))
	c := must(t)(NewGeneric(Generic{
		Name: "x", Method: "POST", URL: f.URL, Format: FormatForm, Body: "to={to_digits}&text={text}&life={life}&p={purpose}&l={language}&c={code}",
	}))
	if _, fail := send(t, c); fail != nil {
		t.Fatal(fail)
	}
	m := sample()
	want := url.Values{"to": {"8613812345678"}, "text": {m.Text}, "life": {"540"}, "p": {"login"}, "l": {"zh-Hans"}, "c": {"739154"}}
	if got.Encode() != want.Encode() {
		t.Errorf("%v", got)
	}
}

// What a person can put into a text or a name never becomes another field, another header or another host.
func TestNothingBreaksOut(t *testing.T) {
	m := sample()
	m.Text, m.Sender, m.ID = "\"}, {\"to\": \"+1\"&to=+1\r\n\u2028é😀{secret}", "a\r\nX: y", "i\nd"
	var header http.Header
	var body map[string]string
	f := newFake(t, rig{check: func(r *http.Request, b string) error {
		header = r.Header
		return json.Unmarshal([]byte(b), &body)
	}}, says(said{200, ""}))
	c := must(t)(NewGeneric(Generic{
		Name: "x", Secret: private, Method: "POST", URL: f.URL + "/{sender}?k={secret}", Format: FormatJSON,
		Header: map[string]string{"X-Id": "{id} {sender}"}, Body: `{"to":"{to}","text":"{text}"}`,
	}))
	if _, err := c.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if body["text"] != m.Text || body["to"] != m.To || header.Get("X-Id") != "id aX: y" {
		t.Errorf("%q, %v", body, header)
	}
}

func TestDescriptionsAreChecked(t *testing.T) {
	good := func() Generic { return newGenericRig().description("https://sms.example.com") }
	if wrong := good().Check(); len(wrong) > 0 {
		t.Fatalf("%v", wrong)
	}
	for name, c := range map[string]struct {
		key  string
		turn func(*Generic)
	}{
		"method":             {"method", func(g *Generic) { g.Method = "DELETE" }},
		"plain http":         {"url", func(g *Generic) { g.URL = "http://sms.example.com/" }},
		"no URL":             {"url", func(g *Generic) { g.URL = "sms" }},
		"password in URL":    {"url", func(g *Generic) { g.URL = "https://a:b@sms.example.com/" }},
		"host that varies":   {"url", func(g *Generic) { g.URL = "https://{country}.example.com/" }},
		"scheme that varies": {"url", func(g *Generic) { g.URL = "{secret}://sms.example.com/" }},
		"unknown name, URL":  {"url", func(g *Generic) { g.URL += "?{recipient}" }},
		"unknown name, body": {"body", func(g *Generic) { g.Body = `{"to":"{to}{text}","x":"{phone}"}` }},
		"unknown in header":  {"headers", func(g *Generic) { g.Header["X"] = "{phone}" }},
		"header name":        {"headers", func(g *Generic) { g.Header["X Y"] = "1" }},
		"header value":       {"headers", func(g *Generic) { g.Header["X"] = "a\nb" }},
		"header of ours":     {"headers", func(g *Generic) { g.Header["content-type"] = "text/plain" }},
		"not JSON":           {"body", func(g *Generic) { g.Body = `{"to": {to}, "text": "{text}"}` }},
		"body, no format":    {"body", func(g *Generic) { g.Format = "" }},
		"format, no body":    {"body", func(g *Generic) { g.Body = "" }},
		"format":             {"format", func(g *Generic) { g.Format = "xml" }},
		"no number":          {"body", func(g *Generic) { g.Body = `{"text": "{text}"}` }},
		"no text":            {"body", func(g *Generic) { g.Body = `{"to": "{to}"}` }},
		"no secret":          {"secret_env", func(g *Generic) { g.Secret = "" }},
		"word":               {"answer", func(g *Generic) { g.Answer.Codes["5"] = "maybe" }},
		"word of a status":   {"answer", func(g *Generic) { g.Answer.Statuses["500"] = "limit 48h" }},
		"codes from nowhere": {"answer", func(g *Generic) { g.Answer.Code = Extract{} }},
	} {
		t.Run(name, func(t *testing.T) {
			g := good()
			c.turn(&g)
			if wrong := g.Check(); wrong[c.key] == nil || len(wrong) != 1 {
				t.Errorf("%v, want one on %s", wrong, c.key)
			}
			if _, err := NewGeneric(g); err == nil || strings.Contains(err.Error(), private) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestExtract(t *testing.T) {
	const body = `{"a": [{"b": "x"}, {"b": 12}], "t": true, "n": null, "o": {}}`
	for text, want := range map[string]string{
		"$.a.0.b": "x", "$.a.1.b": "12", "$.t": "true", "$.n": "", "$.o": "", "$.a.2.b": "", "$.a.-1.b": "", "$.z": "", "$.t.u": "", `"b": (\d+)`: "12", `no(.)such`: "",
	} {
		if got, found := extract(text).from([]byte(body)); got != want || found != (want != "") {
			t.Errorf("%s: %q, %v", text, got, found)
		}
	}
	for _, text := range []string{"", "$.", "$.a..b", "(", "nogroup"} {
		if _, err := ParseExtract(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if got, found := extract("$.a").from([]byte("no json")); found {
		t.Errorf("%q", got)
	}
}

func TestWhatIsKeptOfTheirWords(t *testing.T) {
	for text, want := range map[string]string{
		"isv.MOBILE_NUMBER_ILLEGAL": "isv.MOBILE_NUMBER_ILLEGAL", "21211": "21211", "739154": "", "8613812345678": "", "a b": "", "": "", "+49": "", "x\n": "",
	} {
		if got := asCode(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	if asID("900619746936498440^0") == "" || asID("a b") != "" || asID(strings.Repeat("x", 129)) != "" {
		t.Error("identifiers")
	}
}
