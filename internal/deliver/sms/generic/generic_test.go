package generic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/deliver/sms/smstest"
)

func open(g Config) sms.Carrier { return g.Open(sms.Setup{Name: "rest", Secret: smstest.Private}) }

func extract(text string) extraction {
	e, err := parseExtraction(text)
	if err != nil {
		panic(err)
	}
	return e
}

func description(endpoint string) Config {
	return Config{
		URL: endpoint + "/v1/{country}/messages", User: "shop",
		Header: map[string]string{"Idempotency-Key": "{id}", "X-Key": "{secret}"},
		Body:   `{"to": "{to}", "from": "{sender}", "text": "{text}", "left": {minutes}, "cb": "{callback}"}`,
		Answer: answerSettings{
			ID: extract("$.messages.0.id"), Code: extract("$.messages.0.status"),
			Codes: map[string]codeMeaning{
				"0": "accepted", "1": "temporary", "6": "rejected", "7": "opted_out", "8": "unknown",
				"9": "limit 60s",
			},
			Statuses: map[string]codeMeaning{"404": "rejected", "203": "temporary"},
		},
	}
}

func genericRig() smstest.Rig {
	answer := func(code string) string {
		return `{"messages": [{"id": "msg-1", "status": ` + code + `, "error": "` + smstest.Private + ` 739154"}]}`
	}
	r := smstest.Rig{
		Name: "generic", ID: "msg-1", Accepted: smstest.Reply(202, answer(`"0"`)),
		Cases: map[string]smstest.Outcome{
			"rejected":  smstest.Case(smstest.Reply(200, answer(`"6"`)), delivery.Rejected, "", 0),
			"temporary": smstest.PerNumber(smstest.Reply(200, answer(`1`))),
			"limit": smstest.Case(smstest.Reply(200, answer(`"9"`)), delivery.Rejected,
				sms.ReasonCarrierLimit, time.Minute),
			"opted out":               smstest.Case(smstest.Reply(400, answer(`"7"`)), delivery.Rejected, sms.ReasonOptedOut, 0),
			"a code that is not told": smstest.PerNumber(smstest.Reply(200, answer(`"77"`))),
			"temporary, beside a 401": smstest.Case(smstest.Reply(401, answer(`1`)), delivery.Temporary, "", 0),
			"temporary, beside a 429": smstest.Case(smstest.Reply(429, answer(`1`)), delivery.Temporary, "", 0),
			"a status that is told":   smstest.Case(smstest.Reply(404, "no"), delivery.Rejected, "", 0),
			"a success that is none":  smstest.PerNumber(smstest.Reply(203, answer(`"0"`))),
			"a plain 400":             smstest.Case(smstest.Reply(400, "no"), delivery.Rejected, "", 0),
			"zero beside a 400":       smstest.Case(smstest.Reply(400, answer(`"0"`)), delivery.Rejected, "", 0),
		},
	}
	r.Make = func(t *testing.T, endpoint string) sms.Carrier { return open(description(endpoint)) }
	r.Check = func(r *http.Request, body string) error {
		m := smstest.Sample()
		return smstest.Want([]string{
			r.Method, r.URL.Path, r.Header.Get("X-Key"), r.Header.Get("Idempotency-Key"),
			r.Header.Get("Content-Type"), r.Header.Get("Authorization"), body,
		},
			"POST", "/v1/CN/messages", smstest.Private, m.ID, "application/json; charset=utf-8",
			providerhttp.BasicAuth("shop", smstest.Private),
			`{"to": "`+m.To+`", "from": "Shop", "text": "739154 is your \"code\" & more", "left": 9, "cb": "`+
				m.CallbackURL+`"}`)
	}
	return r
}

// kannelDescription returns the carrier kannel of deploy/http-carriers.yaml without the settings
// for receipts.
func kannelDescription(endpoint string) Config {
	return Config{
		URL: endpoint +
			"/cgi-bin/sendsms?username=sendcode&password={secret}&from={sender}&to={to}&text={text}&charset=UTF-8&coding={coding}" +
			"&dlr-mask=19&dlr-url={callback}%26status=%25d",
		Answer: answerSettings{
			Code:     extract("^(0: Accepted|3: Queued)"),
			Codes:    map[string]codeMeaning{"0: Accepted": meansAccepted, "3: Queued": meansAccepted},
			Statuses: map[string]codeMeaning{"404": "temporary"},
		},
	}
}

func kannelRig() smstest.Rig {
	return smstest.Rig{
		Name: "kannel", Accepted: smstest.Reply(202, "0: Accepted for delivery"), ID: smstest.Sample().ID, // the ID in the URL of polls
		Make: func(t *testing.T, endpoint string) sms.Carrier {
			g := kannelDescription(endpoint)
			g.Poll = pollSettings{URL: endpoint + "/{id}", Status: "$.state"}
			return open(g)
		},
		Check: func(r *http.Request, body string) error {
			m := smstest.Sample()
			query := url.Values{
				"username": {"sendcode"}, "password": {smstest.Private}, "from": {m.Sender}, "to": {m.To}, "text": {m.Text},
				"charset": {"UTF-8"}, "coding": {"0"}, "dlr-mask": {"19"}, "dlr-url": {m.CallbackURL + "&status=%d"},
			}
			return smstest.Want([]string{r.Method, r.URL.Query().Encode(), body}, "GET", query.Encode(), "")
		},
		Cases: map[string]smstest.Outcome{
			"bad number": smstest.Case(smstest.Reply(400,
				"Number(s) has/have been denied by white- and/or black-lists."), delivery.Rejected, "", 0),
			"no route": smstest.PerNumber(smstest.Reply(404, "Temporal failure")),
			"conflict": smstest.PerNumber(smstest.Reply(409, "")),
		},
	}
}

func TestFormBodies(t *testing.T) {
	m := smstest.Sample()
	r := smstest.Rig{Check: func(r *http.Request, body string) error {
		return smstest.Want([]string{body},
			"to=8613812345678&text="+providerhttp.EscapeURLPart(m.Text)+"&life=540&p=login&l=zh-Hans&c=739154")
	}}
	f := smstest.NewFake(t, r, smstest.Says(smstest.Reply(200, "")))
	c := open(Config{URL: f.URL, Body: "to={to_digits}&text={text}&life={life}&p={purpose}&l={language}&c={code}"})
	if _, fail := smstest.Send(t, t.Context(), c); fail != nil {
		t.Fatal(fail)
	}
}

func TestFormatOf(t *testing.T) {
	for body, want := range map[string]bodyFormat{
		`{"to":"{to}"}`: jsonBodyFormat, `[{"to":"{to}"}]`: jsonBodyFormat,
		"to={to}": formBodyFormat,
	} {
		if got := formatOf(body); got.contentType != want.contentType {
			t.Errorf("%s: %s", body, got.contentType)
		}
	}
}

// Characters that a person can put into a text or a name never begin another field, another header
// or another host.
func TestSendEscapesValues(t *testing.T) {
	m := smstest.Sample()
	m.Text, m.Sender, m.ID = "\"}, {\"to\": \"+1\"&to=+1\r\n\u2028é😀{secret}", "a\r\nX: y", "i\nd"
	var header http.Header
	var body map[string]string
	f := smstest.NewFake(t, smstest.Rig{Check: func(r *http.Request, b string) error {
		header = r.Header
		return json.Unmarshal([]byte(b), &body)
	}}, smstest.Says(smstest.Reply(200, "")))
	c := open(Config{
		URL:    f.URL + "/{sender}?k={secret}",
		Header: map[string]string{"X-Id": "{id} {sender}"}, Body: `{"to":"{to}","text":"{text}"}`,
	})
	if _, err := c.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if body["text"] != m.Text || body["to"] != m.To || header.Get("X-Id") != "id aX: y" {
		t.Errorf("%q, %v", body, header)
	}
}

func TestConfigCheck(t *testing.T) {
	good := func() Config {
		g := description("https://sms.example.com")
		g.Poll = pollSettings{URL: "https://sms.example.com/{message}", Status: "$.s"}
		g.Receipt, g.Delivered = "s", []string{"1"}
		return g
	}
	for _, change := range []func(*Config){
		func(*Config) {},
		func(g *Config) { g.Receipt, g.Delivered, g.Undelivered = "", nil, []string{"2"} },
		func(g *Config) { g.Poll = pollSettings{} },
		func(g *Config) { g.Body = `[{"to": "{to}", "text": "{text}"}]` },
		func(g *Config) { g.Receipt, g.Poll, g.Delivered = "", pollSettings{}, nil },
	} {
		g := good()
		if change(&g); len(g.Check()) > 0 {
			t.Errorf("%+v: %v", g, g.Check())
		}
	}
	for key, changes := range map[string][]func(*Config){
		"url": {
			func(g *Config) { g.URL = "http://sms.example.com/" },
			func(g *Config) { g.URL = "https://a:b@sms.example.com/" },
			func(g *Config) { g.URL = "https://{country}.example.com/" },
			func(g *Config) { g.URL = "{secret}://sms.example.com/" },
			func(g *Config) { g.URL += "?{recipient}" },
		},
		"headers": {
			func(g *Config) { g.Header["X"] = "{phone}" },
			func(g *Config) { g.Header["X"] = "a\nb" },
			func(g *Config) { g.Header["content-type"] = "text/plain" },
		},
		"body": {
			func(g *Config) { g.Body = `{"to":"{to}{text}","x":"{phone}"}` },
			func(g *Config) { g.Body = `{"to": {to}, "text": "{text}"}` },
			func(g *Config) { g.Body = "<message to=\"{to}\">{text}</message>" },
			func(g *Config) { g.Body = "to={to};text={text}" },
			func(g *Config) { g.Body = `{"to": "{to}"}` },
		},
		"answer": {
			func(g *Config) { g.Answer.Codes["5"] = "maybe" },
			func(g *Config) { g.Answer.Statuses["500"] = "limit 48h" },
			func(g *Config) { g.Answer.Statuses["200"] = meansAccepted },
			func(g *Config) { g.Answer.Code = extraction{} },
		},
		"poll": {
			func(g *Config) { g.Poll.URL = "" },
			func(g *Config) { g.Poll.Status = "status" },
			func(g *Config) { g.Poll.URL = "https://sms.example.com/" },
			func(g *Config) { g.Poll.Status = "$." },
			func(g *Config) { g.Poll.URL += "{nothing}" },
			func(g *Config) { g.Answer.ID = extraction{} },
		},
		"receipt": {func(g *Config) { g.Receipt = "$." }},
		"delivered": {
			func(g *Config) { g.Delivered = nil },
			func(g *Config) { g.Receipt, g.Delivered = "", nil },
			func(g *Config) { g.Receipt, g.Poll = "", pollSettings{} },
			func(g *Config) { g.Undelivered = []string{"1"} },
		},
	} {
		for i, change := range changes {
			g := good()
			change(&g)
			if wrong := g.Check(); wrong[key] == nil || len(wrong) != 1 {
				t.Errorf("%s, %d: %v", key, i, wrong)
			}
		}
	}
}

func TestExtract(t *testing.T) {
	const body = `{"a": [{"b": "x"}, {"b": 12}], "t": true, "n": null, "o": {}}`
	for text, want := range map[string]string{
		"$.a.0.b": "x", "$.a.1.b": "12", "$.t": "true", "$.n": "", "$.z": "", `"b": (\d+)`: "12", `no(.)such`: "",
	} {
		if got, found := extract(text).find([]byte(body)); got != want || found != (want != "") {
			t.Errorf("%s: %q, %v", text, got, found)
		}
	}
	for _, text := range []string{"", "$.", "$.a..b", "(", "nogroup"} {
		if _, err := parseExtraction(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if got, found := extract("$.a").find([]byte("no json")); found {
		t.Errorf("%q", got)
	}
}

func TestGenericContract(t *testing.T) {
	for _, r := range []smstest.Rig{genericRig(), kannelRig()} {
		t.Run(r.Name, func(t *testing.T) { smstest.Contract(t, r) })
	}
}

func TestNeedsSecret(t *testing.T) {
	if g := description("https://sms.example.com"); !g.NeedsSecret() || g.NeedsCallback() == false {
		t.Error("a description with a user and {callback} needs neither secret nor callback")
	}
	if g := (Config{URL: "https://sms.example.com/?to={to}&text={text}"}); g.NeedsSecret() || g.NeedsCallback() {
		t.Error("a description without {secret}, user and {callback} needs one of them")
	}
}

func TestGenericPollStatus(t *testing.T) {
	generic := smstest.Rig{Name: "generic", Make: func(t *testing.T, endpoint string) sms.Carrier {
		g := description(endpoint)
		g.Poll = pollSettings{URL: endpoint + "/messages/{message}?to={to}", Status: "$.message.state"}
		g.Delivered, g.Undelivered = []string{"DELIVRD"}, []string{"UNDELIV", "EXPIRED"}
		return open(g)
	}}
	smstest.PollContract(t, smstest.PollRig{
		Rig: generic, ID: "m/1",
		Check: func(r *http.Request, _ string) error {
			return smstest.Want([]string{r.Method, r.URL.RequestURI()}, "GET", "/messages/m%2F1?to=%2B8613812345678")
		},
		Delivered: `{"message":{"state":"DELIVRD"}}`, Lost: `{"message":{"state":"EXPIRED"}}`,
		Open:    `{"message":{"state":"ACCEPTD"}}`,
		Refusal: smstest.Reply(200, `{"error":"`+smstest.Private+`"}`),
	})
	unasked, asked := description("https://sms.example.com"), description("https://sms.example.com")
	asked.Poll = pollSettings{URL: "https://sms.example.com/{id}", Status: "$.s"}
	if unasked.CanBePolled() || !asked.CanBePolled() {
		t.Error("a carrier is asked if its description says how, and only then")
	}
	_, _, err := open(unasked).(sms.Poller).PollStatus(t.Context(), smstest.StatusQueryOf("1"))
	var fail *delivery.Error
	if !errors.As(err, &fail) || fail.Class != delivery.Rejected {
		t.Errorf("%v", err)
	}
}

func TestGenericProbe(t *testing.T) {
	smstest.ProbeContract(t, genericRig(), func(*http.Request, string) error { return errors.New("it was asked") }, smstest.Answer{}, nil)
}

func TestParseReports(t *testing.T) {
	const query, path = "status", "$.dlr.state"
	for _, c := range []struct{ receipt, url, body, want string }{
		{query, "https://x/?send=s&status=1", "", "[{s true }]"},
		{query, "https://x/?send=s&status=16", "", "[{s false }]"},
		{query, "https://x/?send=s&status=8", "", "[]"},
		{query, "https://x/?send=s", "a=b&status=1", "[{s true }]"},
		{query, "https://x/?send=s", "", ""},
		{path, "https://x/", `{"dlr":{"state":"DELIVRD"}}`, "[{s true }]"},
		{path, "https://x/", "no", ""},
	} {
		g := description("https://sms.example.com")
		g.Receipt, g.Delivered, g.Undelivered = c.receipt, []string{"1", "DELIVRD"}, []string{"2", "16"}
		got, reply, err := smstest.ReporterOf(t, open(g)).ParseReports(sms.IncomingRequest{URL: c.url, Body: []byte(c.body)}, "s")
		if c.want == "" && err == nil || c.want != "" && (err != nil || fmt.Sprint(got) != c.want || reply != "") {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

// A carrier reads the request and never answers. The attempt ends at its own timeout, with an
// unknown outcome.
func TestSendTimeoutIsUnknown(t *testing.T) {
	end := make(chan struct{})
	f := smstest.NewFake(t, genericRig(), func(http.ResponseWriter, *http.Request) { <-end })
	t.Cleanup(func() { close(end) })                 // runs before the server is closed
	for wait := 50 * time.Millisecond; ; wait *= 2 { // on a busy machine the first wait may be too short for a connection
		_, fail := smstest.Send(t, t.Context(), description(f.URL).Open(sms.Setup{Name: "rest", Secret: smstest.Private, Timeout: wait}))
		if fail == nil || fail.Stage != delivery.StageDial && fail.Class != delivery.Unknown {
			t.Fatalf("%v", fail)
		}
		if fail.Stage != delivery.StageDial {
			return
		}
	}
}
