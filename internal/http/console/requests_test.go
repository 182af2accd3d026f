package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/kit/golden"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// filled has the ways in which a part of testdata/requests.txt can fill its database first.
var filled = map[string]func(r *rig){
	"nothing":   func(*rig) {},
	"one":       func(r *rig) { r.sent("ana@example.com") },
	"two hours": (*rig).count,
	"countries": func(r *rig) {
		r.count()
		for _, country := range []string{"DE", "001"} {
			r.sent(country+"@example.com", func(s *store.Send) { s.Channel, s.Country = recipient.SMS, country })
		}
	},
	"every page": func(r *rig) { everyPage(r) },
	"several": func(r *rig) {
		sent := r.sent("ana@example.com", func(s *store.Send) { s.Reference = "order-7" })
		r.Must(r.Store.Check(r.Context(), storetest.Right(sent.VerificationID)))
		r.Clock.Add(time.Hour)
		r.refused("bo@example.com", "hour", time.Minute, 1, func(s *store.SendOrRefusal) { s.App, s.Network = "desk", "198.51.100.0/24" })
		r.refused("bo@example.com", "day", time.Minute, 1, func(s *store.SendOrRefusal) {
			s.Channel, s.Purpose, s.To, s.Country = recipient.SMS, "signup", "+49 151•••021", "DE"
		})
	},
	"bounced": func(r *rig) {
		_, hash := r.recipient("ana@example.com")
		r.finish(r.begin("ana@example.com").Send, store.Outcome{
			Status: store.Failed, Reason: "rejected", ProviderCode: "550 5.1.1", Refund: true,
			Suppress: store.NewSuppression{Cause: store.CauseHardBounce, Address: hash, For: 720 * time.Hour},
		})
		r.Clock.Add(time.Second)
	},
	"refusal": func(r *rig) { r.refused("ana@example.com", "minute", 42*time.Second, 3) },
	"ranges": func(r *rig) {
		r.pausedPrefix("+49151")
		r.pausedPrefix("+49152")
	},
	"erased": func(r *rig) { r.erase(r.sent("ana@gmial.com")) },
}

// TestRequests makes the requests of testdata/requests.txt, part by part, and compares the answers
// with what stands there. No answer shows a recipient that nobody typed.
func TestRequests(t *testing.T) {
	const file = "testdata/requests.txt"
	var out strings.Builder
	var s *session
	before := map[string][]string{}
	for line := range strings.Lines(string(storetest.Must(os.ReadFile(file))(t))) {
		line = strings.TrimSuffix(line, "\n")
		switch name, part := strings.CutPrefix(line, "== "); {
		case part:
			s = newSession(t, name, before)
			fmt.Fprintf(&out, "\n%s\n", line)
		case strings.HasPrefix(line, "# "):
			fmt.Fprintln(&out, line)
		case strings.HasPrefix(line, "> "):
			fmt.Fprintf(&out, "%s\n%s", line, s.names.of(s.run(line[2:])))
		}
	}
	golden.File(t, file, strings.TrimPrefix(out.String(), "\n"))
}

// session is a part of the file: a rig, and the browsers of roles.
type session struct {
	*rig
	names  numbers
	roles  map[string]*consoletest.Browser
	before map[string][]string // the lines of the last page of each title
}

func newSession(t *testing.T, name string, before map[string][]string) *session {
	t.Helper()
	s := &session{rig: newRig(t), names: numbers{}, roles: map[string]*consoletest.Browser{}, before: before}
	_, content, _ := strings.Cut(name, " of ")
	content = strings.TrimPrefix(content, "a ")
	filled[content](s.rig)
	t.Cleanup(func() { s.Unlogged("ana@example.com", "bo@example.com") })
	for _, row := range slices.Backward(storetest.Must(s.Store.Sends(t.Context(), store.Filter{Limit: 200}))(t)) { // #1 is the first send
		s.names.of(row.ID.String() + " " + row.Recipient.String())
	}
	return s
}

// run does what a line says, and returns the answer as lines.
func (s *session) run(line string) string {
	s.Helper()
	who, rest, _ := strings.Cut(line, " ")
	switch who {
	case "clock":
		s.Clock.Add(storetest.Must(time.ParseDuration(rest))(s))
		clear(s.roles) // sessions may have ended
		return ""
	case "break":
		s.Break(strings.Fields(rest)...)
		return ""
	case "acts":
		return s.Did() + "\n"
	}
	method, rest, _ := strings.Cut(s.ids(rest), " ")
	path, body, _ := strings.Cut(rest, " ")
	switch method {
	case "rows":
		return "= " + strings.Join(rowsIn(want(s.T, s.as(who).Get(path), http.StatusOK).Body.String()), " ") + "\n"
	case "find", "look":
		rec := searchFor(s.as(who), storetest.Must(strconv.Unquote(rest))(s))
		to := rec.Header().Get("Location")
		if method == "look" && to != "" {
			return s.answer(s.as(who).Get(to), true)
		}
		return s.answer(rec, true)
	}
	var rec *httptest.ResponseRecorder
	switch {
	case who == "script":
		rec = s.as("").Do(method, path, body, "Content-Type", "application/json", "Authorization", "Bearer "+consoletest.Token)
	case method == "POST":
		rec = s.as(who).Post(path, storetest.Must(url.ParseQuery(body))(s))
	default:
		rec = s.as(who).Get(path)
	}
	return s.answer(rec, strings.Contains(body, "@") || strings.HasSuffix(path, "/reveal"))
}

// as is the browser of a role; of admin's, or nobody's.
func (s *session) as(role string) *consoletest.Browser {
	s.Helper()
	if s.roles[role] == nil {
		switch role {
		case "":
			return s.Browser()
		case "admin":
			s.roles[role] = s.LoggedIn()
		default:
			s.roles[role] = s.As(role)
		}
	}
	return s.roles[role]
}

// ids replaces each number in the text by its ID.
func (s *session) ids(text string) string {
	for id, n := range s.names {
		text = strings.ReplaceAll(text, fmt.Sprintf("#%d;", n), id)
	}
	return text
}

// answer returns the status unless it is 200, the headers Location and Retry-After, and the body.
// For a page it returns only the lines that the page before with this title lacks, and the lines
// that only this page has.
func (s *session) answer(rec *httptest.ResponseRecorder, typed bool) (text string) {
	s.Helper()
	if rec.Code != http.StatusOK {
		text = fmt.Sprint("=> ", rec.Code)
	}
	for _, name := range []string{"Location", "Retry-After"} {
		if value := rec.Header().Get(name); value != "" {
			text += " " + value
		}
	}
	if kind := rec.Header().Get("Content-Type"); rec.Body.Len() > 0 && !strings.HasPrefix(kind, "text/html") {
		text += " " + kind
	}
	if text != "" {
		text = strings.TrimSpace(text) + "\n"
	}
	if !strings.HasSuffix(rec.Header().Get("Cache-Control"), "no-store") {
		s.Errorf("it may be kept: %v", rec.Header())
	}
	if !typed {
		lacks(s.T, rec, "ana@example.com", "bo@example.com")
	}
	if !strings.Contains(rec.Body.String(), "<main") {
		return text + strings.TrimPrefix(asText(rec)+"\n", "\n")
	}
	var lines []string
	for line := range strings.Lines(s.names.of(strings.ToValidUTF8(asText(rec), "\ufffd"))) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	before := s.before[lines[0]]
	s.before[lines[0]] = lines
	for _, line := range before {
		if !slices.Contains(lines, line) {
			text += "- " + line + "\n"
		}
	}
	for _, line := range lines {
		if !slices.Contains(before, line) {
			text += "+ " + line + "\n"
		}
	}
	return text
}
