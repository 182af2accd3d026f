package app_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/run/app/apptest"
)

// fromPage adds the header with which a browser submits the form of our page.
func fromPage(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }

var notMeLink = regexp.MustCompile(`https?://\S+/not-me/[\w-]{43}`)

// The link in a mail opens a page without the full address. Opening it changes nothing. Its button
// cancels the code, sends the app one event, and changes no wait. After an approval the code stays
// approved. A text that is no token of a mail gets 404.
func TestRecipientsReportMails(t *testing.T) {
	t.Parallel()
	apptest.OnEach(t, func(s *apptest.Stack) {
		r := apptest.NewReceiver(s.T)
		s.WithWebhook(r, "public_url: https://codes.example\n").Start(1)
		if s.SMTP != nil {
			s.Start(1)
		}
		last := len(s.Replicas) - 1
		ask := func(to string) (id, code, path string) {
			id = s.Ask(0, to).ID
			mail := s.AwaitMail(to, 1)[0]
			link := notMeLink.FindString(strings.ReplaceAll(strings.ReplaceAll(mail.Text, "=\r\n", ""), "=3D", "="))
			u, err := url.Parse(link)
			if err != nil || u.Host != "codes.example" || !strings.HasPrefix(u.Path, "/not-me/") {
				s.Fatalf("the link %q, %v", link, err)
			}
			return id, s.CodeIn(mail), u.Path
		}
		page := func(method, path, words string, status int) {
			s.Helper()
			a := s.Do(last, method, path, "", fromPage)
			s.Is(method, a, status, strings.Contains(string(a.Raw), words), !strings.Contains(string(a.Raw), "ana@"),
				a.Header.Get("Cache-Control") == "no-store")
		}
		own := s.Post("/v1/verifications", `{"channel":"email","to":"own@example.org","code":"471147"}`)
		s.Is("a caller's own code", own, http.StatusAccepted, !strings.Contains(s.AwaitMail("own@example.org", 1)[0].Text, "/not-me/"))
		id, code, path := ask("ana@example.org")
		for range 2 {
			page(http.MethodGet, path, "a•••@example.org", http.StatusOK)
		}
		s.Is("a program's post", s.Do(0, http.MethodPost, path, "", func(r *http.Request) { r.Header.Del("Authorization") }), http.StatusForbidden)
		before := s.Verification(id)
		s.Is("before", before, http.StatusOK, before.State() == "pending")
		for range 3 {
			page(http.MethodPost, path, "no longer works", http.StatusOK)
		}
		page(http.MethodGet, path, "no longer works", http.StatusOK)
		after := s.Verification(id)
		s.Is("after", after, http.StatusOK, after.State() == "canceled", after.Quota.Rules[1].Remaining == before.Quota.Rules[1].Remaining,
			after.Quota.BlockedBy == before.Quota.BlockedBy)
		s.Is("the code", s.Check(0, id, code), http.StatusOK, !s.Check(last, id, code).Valid)

		id, code, other := ask("bob@example.org")
		s.Approves(0, id, code)
		page(http.MethodPost, other, "already been entered", http.StatusOK)
		approved := s.Verification(id)
		s.Is("approved", approved, http.StatusOK, approved.State() == "approved")

		for _, wrong := range []string{
			path[:len(path)-1], path + "A", path[:len(path)-3] + "AAA", path[:len("/not-me/")] + other[len("/not-me/"):len("/not-me/")+22] + path[len(path)-21:],
			"/not-me/" + id, "/not-me/%00",
		} {
			page(http.MethodGet, wrong, "no longer works", http.StatusNotFound)
			page(http.MethodPost, wrong, "no longer works", http.StatusNotFound)
		}
		s.Is("erasure", s.ByAdmin(0, "/v1/admin/erase", `{"channel":"email","to":"bob@example.org","reason":"asked"}`), http.StatusNoContent)
		page(http.MethodPost, other, "no longer works", http.StatusNotFound)

		var eventTypes []string
		for _, e := range s.AwaitEvents(r, 5) {
			if strings.HasPrefix(e.Type, "verification.") {
				eventTypes = append(eventTypes, e.Type)
			}
		}
		slices.Sort(eventTypes)
		if want := []string{"verification.approved", "verification.reported", "verification.reported"}; !slices.Equal(eventTypes, want) {
			s.Errorf("events: %v", eventTypes)
		}
	})
}
