//go:build nightly

// Only `make nightly` runs these tests: they need node and Python.

package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

const mostLines = 18 // a back end in another language than Go has at most this many lines

// quickStarts has a program around each snippet that docs/quickstart.md has or names. The program
// is called with `send <to> <client_ip> <id or ""> <key>` or `check <id> <code> <client_ip>`.
var quickStarts = map[string]struct {
	needs  func(testing.TB) string // returns the program that runs the snippet; nil: Go, which is always there
	file   string
	around string // the program, in which the snippet replaces {}
	run    []string
}{
	"go": {nil, "main.go", `{}
func main() {
	var status int
	var answer map[string]any
	var err error
	switch a := os.Args[2:]; {
	case os.Args[1] == "check":
		id, code, ip, key := a[0], a[1], a[2], rand.Text()
		status, answer, err = {check}
	case a[2] != "":
		ip, id, key := a[1], a[2], a[3]
		status, answer, err = {again}
	default:
		to, ip, key := a[0], a[1], a[3]
		status, answer, err = {send}
	}
	if err != nil && status != http.StatusServiceUnavailable {
		panic(err)
	}
	json.NewEncoder(os.Stdout).Encode(answer)
	fmt.Println(status)
}
`, []string{"go", "run", "main.go"}},
	"js": {
		servertest.Node, "back.mjs",
		"{}\nconst [does, ...rest] = process.argv.slice(2).map((one) => one || undefined);\nconst [status, answer] = await { send, check }[does](...rest);\nconsole.log(JSON.stringify(answer), status);\n",
		[]string{"node", "back.mjs"},
	},
	"python": {
		servertest.Python, "back.py",
		"{}\nimport sys\nstatus, answer = {\"send\": send, \"check\": check}[sys.argv[1]](*sys.argv[2:])\nprint(json.dumps(answer), status)\n",
		[]string{"python3", "back.py"},
	},
}

// twoAnHour admits a code and a second send of the same code. Its second rule applies only to
// requests with the user's address; the answers to these requests show that rule.
const (
	twoAnHour = `    - {name: hour, scope: recipient, limit: 2, window: 3600s}
    - {name: address, scope: ip, limit: 100, window: 60s}
`
	ofTheUsersAddress = `"address"`
)

// The quick starts work as the document says. Those in another language than Go have at most
// mostLines lines.
func TestQuickStarts(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Policy(twoAnHour + "failed_checks_per_hour: 1\n").Start(1)
	third := 0 // the third byte of a user's address, so that each user is in a separate network
	for language, q := range quickStarts {
		var snippet string
		if file, err := os.ReadFile("../../../../docs/examples/" + q.file); err == nil {
			snippet = string(file)
		} else {
			snippet = goWithoutMain(t)
		}
		if n := strings.Count(regexp.MustCompile(`\n+`).ReplaceAllString(snippet, "\n"), "\n"); n > mostLines && language != "go" {
			t.Errorf("the quick start in %s has %d lines", language, n)
		}
		if language == "go" {
			q.around = withCalls(t, q.around)
		}
		ip, otherIP := fmt.Sprintf("198.18.%d.7", third), fmt.Sprintf("198.18.%d.7", third+1)
		third += 2
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if q.needs != nil {
				q.needs(t)
			}
			dir := t.TempDir()
			program := strings.Replace(q.around, "{}", snippet, 1)
			apptest.Must(t, os.WriteFile(filepath.Join(dir, q.file), []byte(program), 0o600))
			base := s.Replicas[0].Base
			call := func(arguments ...string) (answer struct {
				ID         string
				Status     any // a number if the request was refused
				Valid      bool
				RetryAfter int `json:"retry_after"`
				Quota      json.RawMessage
				HTTP       int `json:"-"` // the status of the answer
			},
			) {
				c := exec.Command(q.run[0], append(q.run[1:], arguments...)...)
				c.Dir, c.Stderr = dir, os.Stderr
				c.Env = append(os.Environ(), "CODES_URL="+base, "CODES_KEY="+s.Key, "GOFLAGS=-mod=mod", "GOWORK=off")
				out, err := c.Output()
				if err == nil {
					both := json.NewDecoder(bytes.NewReader(out))
					err = errors.Join(both.Decode(&answer), both.Decode(&answer.HTTP))
				}
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return answer
			}
			to := "ana." + language + "@example.com"
			sent := call("send", to, ip, "", "key-of-one-click-"+language)
			if sent.Status != "pending" || sent.ID == "" || sent.HTTP != http.StatusAccepted {
				t.Fatalf("%+v", sent)
			}
			if !strings.Contains(string(sent.Quota), ofTheUsersAddress) {
				t.Errorf("the rule on the user's address does not apply: %s", sent.Quota)
			}
			if repeated := call("send", to, ip, "", "key-of-one-click-"+language); repeated.ID != sent.ID ||
				repeated.HTTP != http.StatusAccepted {
				t.Errorf("repeated: %+v", repeated)
			}
			if again := call("send", to, ip, sent.ID, "key-of-another-click-"+language); again.ID != sent.ID ||
				again.HTTP != http.StatusAccepted || !strings.Contains(string(again.Quota), ofTheUsersAddress) {
				t.Errorf("sent again: %s after %s, %d, %s", again.ID, sent.ID, again.HTTP, again.Quota)
			}
			if early := call("send", to, ip, sent.ID, "key-of-a-third-click-"+language); early.RetryAfter < 1 ||
				early.HTTP != http.StatusTooManyRequests {
				t.Errorf("too early: %+v", early)
			}
			mails := s.AwaitMail(to, 2)
			code := s.CodeIn(mails[0])
			servertest.Same(t, "sent again", s.CodeIn(mails[1]), code)
			if language == "go" {
				newestCode(t, s, code)
			}
			if got := call("check", sent.ID, s.Wrong(code), ip); got.Valid || got.Status != "pending" {
				t.Errorf("a wrong code: %+v", got)
			}
			servertest.Same(t, "another one from the same address, which may have one an hour",
				call("check", sent.ID, s.Wrong(code), ip).HTTP, http.StatusTooManyRequests)
			if got := call("check", sent.ID, code, otherIP); !got.Valid || got.Status != "approved" {
				t.Errorf("the code: %+v", got)
			}
			base = "http://127.0.0.1:1"
			servertest.Same(t, "while the service is away", call("send", to, ip, "", "key-of-a-later-click-"+language).HTTP,
				http.StatusServiceUnavailable)
		})
	}
}

// withCalls inserts the calls of the page's Go into the program, with the Idempotency-Key of a
// click.
func withCalls(t *testing.T, program string) string {
	t.Helper()
	blocks := blocksOf(t, "docs/quickstart.md", "go")
	calls := regexp.MustCompile(`ask\("/v1/verifications.*\)`).FindAllString(blocks[0]+blocks[1], -1)
	if len(calls) != 3 {
		t.Fatalf("the page has the calls %q", calls)
	}
	for i := range calls {
		calls[i] = strings.Replace(calls[i], "rand.Text()", "key", 1)
	}
	return strings.NewReplacer("{send}", calls[0], "{check}", calls[1], "{again}", calls[2]).Replace(program)
}

// newestCode runs the line of the document that reads the mailbox. The line prints the codes of the
// mails, newest first; one of them must be code.
func newestCode(t *testing.T, s *apptest.Stack, code string) {
	t.Helper()
	line := regexp.MustCompile(`curl -s .*"\$CODES_URL/mailbox/messages".*`).FindString(readFile(t, "docs/quickstart.md"))
	list := exec.CommandContext(t.Context(), "sh", "-c", strings.TrimSuffix(line, " | head -n 1"))
	list.Env = append(os.Environ(), "CODES_URL="+s.Replicas[0].Base, "CODES_KEY="+s.Key)
	if said, err := list.Output(); err != nil || !strings.HasSuffix(line, " | head -n 1") ||
		!strings.Contains(string(said), `"code":"`+code+`"`+"\n") {
		t.Errorf("%q prints %q (%v)", line, said, err)
	}
}
