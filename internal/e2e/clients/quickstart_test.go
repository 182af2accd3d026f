package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

const mostLines = 12 // of a back end

// quickStarts are how each snippet of docs/quickstart.md is made a program that is called with
// `send <to>` or `check <id> <code>`.
var quickStarts = map[string]struct {
	program string // what has to be there
	file    string
	around  string // with {} where the snippet stands
	run     []string
}{
	"sh": {"curl", "back.sh", "{}\n\"$@\"\n", []string{"sh", "back.sh"}},
	"go": {"go", "main.go", `package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
)

{}
func main() {
	path, body := "/v1/verifications", map[string]string{"channel": "email", "to": os.Args[2], "trust": "stranger"}
	if os.Args[1] == "check" {
		path, body = "/v1/verifications/"+os.Args[2]+"/check", map[string]string{"code": os.Args[3]}
	}
	status, answer, err := ask(path, os.Args[3], body)
	if err != nil {
		panic(err)
	}
	json.NewEncoder(os.Stdout).Encode(answer)
	json.NewEncoder(os.Stdout).Encode(status)
}
`, []string{"go", "run", "main.go"}},
	"js": {"node", "back.mjs",
		"{}\nconst [does, ...rest] = process.argv.slice(2);\nconst [status, answer] = await { send, check }[does](...rest);\nconsole.log(JSON.stringify(answer), status);\n", []string{"node", "back.mjs"}},
	"python": {"python3", "back.py",
		"{}\nimport sys\nstatus, answer = {\"send\": send, \"check\": check}[sys.argv[1]](*sys.argv[2:])\nprint(json.dumps(answer), status)\n", []string{"python3", "back.py"}},
}

// The quick starts do what they say in as few lines as they say.
func TestQuickStarts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/quickstart.md")
	apptest.Must(t, err)
	s := apptest.Embedded(t)
	s.Start(1)
	for language, q := range quickStarts {
		text := text
		if file, err := os.ReadFile("../../../docs/examples/" + q.file); err == nil {
			text = []byte("```" + language + "\n" + string(file) + "```")
		}
		snippet := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(text)
		if snippet == nil {
			t.Fatalf("there is no quick start in %s", language)
		}
		if n := strings.Count(regexp.MustCompile(`\n+`).ReplaceAllString(string(snippet[1]), "\n"),
			"\n"); n > mostLines {
			t.Errorf("the quick start in %s has %d lines", language, n)
		}
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(q.program); err != nil {
				t.Skip(err)
			}
			dir := t.TempDir()
			apptest.Must(t, os.WriteFile(filepath.Join(dir, q.file),
				[]byte(strings.Replace(q.around, "{}", string(snippet[1]), 1)), 0o600))
			call := func(arguments ...string) (answer struct {
				ID         string
				Status     any // of a refusal a number
				Valid      bool
				RetryAfter int `json:"retry_after"`
				HTTP       int `json:"-"` // the status of the answer
			}) {
				c := exec.Command(q.run[0], append(q.run[1:], arguments...)...)
				c.Dir, c.Stderr = dir, os.Stderr
				c.Env = append(os.Environ(), "CODES_URL="+s.Replicas[0].Base, "CODES_KEY="+s.Key, "GOFLAGS=-mod=mod",
					"GOWORK=off")
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
			sent := call("send", to, "key-of-one-click-"+language)
			if sent.Status != "pending" || sent.ID == "" || sent.HTTP != http.StatusAccepted {
				t.Fatalf("%+v", sent)
			}
			if again := call("send", to, "key-of-one-click-"+language); again.ID != sent.ID ||
				again.HTTP != http.StatusAccepted {
				t.Errorf("repeated: %+v", again)
			}
			if early := call("send", to, "key-of-another-click-"+language); early.RetryAfter < 1 ||
				early.HTTP != http.StatusTooManyRequests {
				t.Errorf("too early: %+v", early)
			}
			code := s.CodeIn(s.AwaitMail(to, 1)[0])
			if language == "sh" {
				newestCode(t, string(text), s.Replicas[0].Base, code)
			}
			if got := call("check", sent.ID, s.Wrong(code)); got.Valid || got.Status != "pending" {
				t.Errorf("a wrong code: %+v", got)
			}
			if got := call("check", sent.ID, code); !got.Valid || got.Status != "approved" {
				t.Errorf("the code: %+v", got)
			}
		})
	}
}

// The page of the API begins with two requests that work as they are, with a key: one asks for a
// code, the other checks it.
func TestThePageOfTheAPIBeginsWithARequest(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Start(1)
	page := string(s.Get("/docs").Raw)
	blocks := regexp.MustCompile(`(?s)<pre[^>]*><code>(.*?)</code></pre>`).FindAllStringSubmatch(page, 2)
	if len(blocks) < 2 || strings.Index(page, blocks[1][0]) > strings.Index(page, "<nav") {
		t.Fatalf("it begins with %q", blocks)
	}
	const to = "ana@example.com"
	run := func(block string, environ ...string) (answer string) {
		t.Helper()
		_, line, _ := strings.Cut(html.UnescapeString(block), "\n")
		c := exec.CommandContext(t.Context(), "sh", "-c", line)
		c.Env = append(append(os.Environ(), "CODES_URL="+s.Replicas[0].Base, "CODES_KEY="+s.Key), environ...)
		said, err := c.Output()
		apptest.Must(t, err)
		return string(said)
	}
	sent := run(blocks[0][1])
	id := regexp.MustCompile(`"id":"(\w+)"`).FindStringSubmatch(sent)
	if !strings.HasPrefix(sent, "HTTP/1.1 202 ") || id == nil {
		t.Fatal(sent)
	}
	if checked := run(blocks[1][1], "id="+id[1], "code="+s.CodeIn(s.AwaitMail(to, 1)[0])); !strings.Contains(checked,
		`"valid":true`) {
		t.Error(checked)
	}
}

// newestCode runs the line that reads the mailbox: it prints the codes of the mails, newest first,
// of which this is one.
func newestCode(t *testing.T, page, base, code string) {
	t.Helper()
	line := regexp.MustCompile(`curl -s "\$CODES_URL/mailbox/messages".*`).FindString(page)
	list := exec.CommandContext(t.Context(), "sh", "-c", strings.TrimSuffix(line, " | head -n 1"))
	list.Env = append(os.Environ(), "CODES_URL="+base)
	if said, err := list.Output(); err != nil || !strings.HasSuffix(line, " | head -n 1") ||
		!strings.Contains(string(said), `"code":"`+code+`"`+"\n") {
		t.Errorf("%q prints %q (%v)", line, said, err)
	}
}
