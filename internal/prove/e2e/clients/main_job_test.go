// Package clients tests the whole service as apps, browsers and people use it: sends, checks,
// limits and keys. It also tests what attackers learn.
package clients

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/run/app/apptest"
)

func TestMain(m *testing.M) { os.Exit(apptest.Main(m, 5, 4)) }

// A person asks for a code, reads the mail, enters the code and is approved. The answer to a second
// request says how long to wait. The database has both. All of this also holds after a restart.
func TestMainJob(t *testing.T) {
	apptest.OnEach(t, func(s *apptest.Stack) {
		s.Start(1)
		began := time.Now()
		a := s.Ask(0, apptest.Ana)
		s.Is("a send", a, http.StatusAccepted, a.To == apptest.AnaMasked, a.State() == "pending", a.Send.Status == "queued")
		if a.Header.Get("RateLimit-Policy") != `"minute";q=1;w=60, "hour";q=5;w=3600, "day";q=10;w=86400` ||
			a.Header.Get("RateLimit") != `"minute";r=0;t=60` || a.Header.Get("Location") != "/v1/verifications/"+a.ID ||
			a.Quota.RetryAfter != 60 || a.Quota.Allowed {
			s.Errorf("%v %s", a.Header, a.Raw)
		}
		mail := s.AwaitMail(apptest.Ana, 1)[0]
		code := s.CodeIn(mail)
		s.AwaitState(a.ID, "sent")
		again := s.Ask(0, apptest.Ana)
		s.Is("a second one", again, http.StatusTooManyRequests, again.BlockedBy == "minute", again.RetryAfter <= 60,
			again.RetryAfter >= 59-int(time.Since(began).Seconds()))
		if h := again.Header.Get("Retry-After"); h != strconv.Itoa(again.RetryAfter) || again.Header.Get("Cache-Control") != "no-store" {
			s.Errorf("Retry-After %q, body %d", h, again.RetryAfter)
		}
		reference := regexp.MustCompile(`S-[0-9A-Z]{4}-[0-9A-Z]{4}`).FindString(mail.Text)
		if reference == "" || !strings.Contains(string(a.Raw), `"support":"`+reference+`"`) ||
			s.Verification(reference).StatusCode != http.StatusNotFound {
			s.Errorf("the mail has the reference %q, the answer is %s", reference, a.Raw)
		}
		inTheDatabase(s, a.Send.ID)
		s.Restart()
		again = s.Ask(0, apptest.Ana)
		s.Is("after a restart", again, http.StatusTooManyRequests, again.RetryAfter <= 60)
		got := s.Verification(a.ID)
		s.Is("a look after a restart", got, http.StatusOK, got.Quota.RetryAfter > 0, got.Send.Status == "sent")
		wrong, right, used := s.Check(0, a.ID, s.Wrong(code)), s.Check(0, a.ID, code[:3]+" "+code[3:]), s.Check(0, a.ID, code)
		s.Is("a wrong code", wrong, 200, !wrong.Valid, *wrong.AttemptsRemaining == 4)
		s.Is("the right code", right, 200, right.Valid, right.State() == "approved")
		s.Is("used again", used, 200, !used.Valid, used.State() == "approved", used.AttemptsRemaining == nil)
		wantNotShown(s, code)
	})
}

// wantNotShown searches the log, and the files of the database on the disk, for the recipient and
// the code. TestNoSinkShowsACanary searches Postgres. Since times and hashes may contain the six
// digits, only a code that is not part of a longer word counts.
func wantNotShown(s *apptest.Stack, code string) {
	s.Helper()
	files, _ := filepath.Glob(filepath.Join(s.Env["SENDCODE_DATA_DIR"], "sendcode.db*"))
	shown := s.Printed.String()
	for _, file := range files {
		content, err := os.ReadFile(file)
		apptest.Must(s.T, err)
		shown += string(content)
	}
	alone := regexp.MustCompile(`(?:^|[^-.\w])` + code + `(?:[^-.\w]|$)`)
	if s.Postgres == nil && len(files) == 0 || strings.Contains(shown, "ana.maria") || alone.MatchString(shown) {
		s.Errorf("the log and %q are empty, or they show the recipient or the code", files)
	}
}

// inTheDatabase checks that an administrator's script finds a send and a refusal, and that a back
// end finds nothing.
func inTheDatabase(s *apptest.Stack, id string) {
	s.Helper()
	s.Await("send and refusal in the database", func() bool {
		list := string(s.ByAdmin(0, "/v1/admin/search", fmt.Sprintf(`{"channel":"email","to":%q}`, apptest.Ana)).Raw)
		return strings.Contains(list, `"status":"refused"`) && strings.Contains(list, id)
	})
	one := s.Get("/v1/admin/sends/"+id, apptest.AsAdmin)
	s.Is("the answer", one, 200, strings.Contains(string(one.Raw), `"status":"sent"`), !strings.Contains(string(one.Raw), "ana.maria"))
	s.Is("an API key lists the sends", s.Get("/v1/admin/sends"), http.StatusUnauthorized)
}
