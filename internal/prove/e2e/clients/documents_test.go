package clients

import (
	"html"
	"io"
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

// readFile reads a file by its path in the repository.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../../" + name)
	apptest.Must(t, err)
	return string(text)
}

// blocksOf returns the blocks of a document in this language.
func blocksOf(t *testing.T, page, language string) []string {
	t.Helper()
	return servertest.Blocks(t, readFile(t, page), language)
}

// Each sample that calls the service waits for a limited time.
func TestSamplesHaveTimeouts(t *testing.T) {
	files, err := filepath.Glob("../../../../docs/examples/*")
	apptest.Must(t, err)
	texts := map[string]string{
		"ask in Go": blocksOf(t, "docs/quickstart.md", "go")[0],
	}
	for _, name := range files {
		texts[name] = readFile(t, "docs/examples/"+filepath.Base(name))
	}
	calls, limits := regexp.MustCompile(`\bfetch\(|urlopen\(|http\.\w*Client|curl `),
		regexp.MustCompile(`(?i)\.timeout\(|timeout[=:]| -m 10`)
	seen := 0
	for name, text := range texts {
		n := len(calls.FindAllString(text, -1))
		if seen += n; n > len(limits.FindAllString(text, -1)) {
			t.Errorf("%s: not each of %d calls has a timeout", name, n)
		}
	}
	servertest.Same(t, "calls", seen, 6)
}

// sh runs the lines of a document in a shell, after it has replaced the address and the key in the
// lines by those of the service.
func sh(t *testing.T, s *apptest.Stack, lines string, replaced ...string) (said string) {
	t.Helper()
	servertest.Curl(t)
	lines = strings.NewReplacer(append(replaced, "http://127.0.0.1:8080", s.Replicas[0].Base, "sk_…", s.Key)...).Replace(lines)
	command := exec.CommandContext(t.Context(), "sh", "-c", lines)
	command.Env = append(os.Environ(), "CODES_URL="+s.Replicas[0].Base, "CODES_KEY="+s.Key)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", lines, err, out)
	}
	return string(out)
}

// The lines of both READMEs request a code, are refused the second time, and check the code. Each
// answer begins as the README shows it.
func TestCommandsOfREADME(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"README.md", "README.zh-CN.md"} {
		s := apptest.Embedded(t).Start(1)
		shell := blocksOf(t, page, "sh")
		ask, check := shell[1], shell[2]
		sent := sh(t, s, ask)
		id := regexp.MustCompile(`"id":"(\w+)"`).FindStringSubmatch(sent)
		if !strings.HasPrefix(sent, "HTTP/1.1 202 Accepted") || id == nil || !strings.Contains(sent, `"to":"a•••@example.com"`) {
			t.Fatalf("%s: %s", page, sent)
		}
		if refused := sh(t, s, ask); !strings.HasPrefix(refused, "HTTP/1.1 429 ") || !strings.Contains(refused, `"blocked_by":"minute"`) {
			t.Errorf("%s: the second time: %s", page, refused)
		}
		code := s.CodeIn(s.AwaitMail("ana@example.com", 1)[0])
		shown := regexp.MustCompile(`id=\w+\n`).FindString(check)
		if got := sh(t, s, check, shown, "id="+id[1]+"\n", "367 944", code[:3]+" "+code[3:]); !strings.Contains(got,
			`"status":"approved","valid":true,"proof":"ey`) {
			t.Errorf("%s: %s", page, got)
		}
	}
}

// The two requests of the quick start send a code and check it. Its Go file compiles as it is, and
// does the same.
func TestTheFirstCodeOfTheQuickStart(t *testing.T) {
	t.Parallel()
	const name = "docs/quickstart.md"
	s := apptest.Embedded(t).Start(1)
	shell := blocksOf(t, name, "sh")
	sent := sh(t, s, shell[2])
	id := regexp.MustCompile(`"id":"(\w+)"`).FindStringSubmatch(sent)
	if id == nil || !strings.Contains(sent, `"status":"pending"`) {
		t.Fatal(sent)
	}
	shown := regexp.MustCompile(`verifications/(\w+)/check`).FindStringSubmatch(shell[3])
	code := s.CodeIn(s.AwaitMail("ana@example.com", 1)[0])
	if got := sh(t, s, shell[3], shown[1], id[1], "367944", code); !strings.Contains(got, `"status":"approved","valid":true,"proof":"ey`) {
		t.Error(got)
	}

	dir := t.TempDir()
	apptest.Must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(blocksOf(t, name, "go")[0]), 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "first", "main.go")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	const to = "ben@example.com"
	program := exec.CommandContext(t.Context(), filepath.Join(dir, "first"), to)
	program.Env = append(os.Environ(), "CODES_URL="+s.Replicas[0].Base, "CODES_KEY="+s.Key)
	typed, err := program.StdinPipe()
	apptest.Must(t, err)
	var said strings.Builder
	program.Stdout, program.Stderr = &said, &said
	apptest.Must(t, program.Start())
	_, err = io.WriteString(typed, s.CodeIn(s.AwaitMail(to, 1)[0])+"\n")
	apptest.Must(t, err)
	if err := program.Wait(); err != nil || said.String() != "The code: 200 true <nil>\n" {
		t.Errorf("%v: %s", err, &said)
	}
}

// goWithoutMain returns the Go file of the quick start up to its function main.
func goWithoutMain(t *testing.T) string {
	t.Helper()
	file, _, found := strings.Cut(blocksOf(t, "docs/quickstart.md", "go")[0], "func main() {")
	if !found {
		t.Fatal("the quick start has no Go file")
	}
	return file
}

// The first line of docs/limits.md takes a place of a limit there. The service accepts the body in
// the quick start with which a caller sends its own code.
func TestCommandsOfLimitsAndOwnCode(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Write(blocksOf(t, "docs/limits.md", "yaml")[0]).Start(1)
	if taken := sh(t, s, blocksOf(t, "docs/limits.md", "sh")[0]); !strings.HasPrefix(taken, "HTTP/1.1 200 OK") ||
		!strings.Contains(taken, `"minute";r=99;t=60`) {
		t.Error(taken)
	}
	body := blocksOf(t, "docs/quickstart.md", "json")[0]
	s.Is("one's own code", s.Post("/v1/verifications", body), http.StatusAccepted)
	servertest.Same(t, "the code of "+body, s.CodeIn(s.AwaitMail("ana@example.com", 1)[0]), "739154")
}

// The lines of docs/supabase.md report the code of a text message.
func TestCommandsOfReports(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Write("sms: {countries: [DE]}").Start(1)
	sent := s.Post("/v1/verifications", `{"channel":"sms","to":"+4915123456789","code":"739154"}`)
	s.Is("the code", sent, http.StatusAccepted)
	lines := blocksOf(t, "docs/supabase.md", "sh")
	servertest.Same(t, "the report", sh(t, s, lines[len(lines)-1]), `{"id":"`+sent.ID+`","outcome":"approved"}`+"\n")
}

// The lines of docs/limits.md try each limit. Each request is admitted, but a second code or gift
// is not. At the end, two of three places in the month are taken and two more events are recorded,
// so a look shows that no place is left.
func TestCommandsOfLimits(t *testing.T) {
	t.Parallel()
	const name = "docs/limits.md"
	s := apptest.Embedded(t).Write(blocksOf(t, name, "yaml")[0]).Start(1)
	ask := regexp.MustCompile(`(?m)^ask\(\) .*$`).FindString(readFile(t, name))
	lines := strings.Split(strings.TrimSpace(blocksOf(t, name, "sh")[1]), "\n")
	if len(lines) != 9 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		once := strings.Contains(line, " codes/") || strings.Contains(line, " gift/")
		for n := range 2 {
			want := map[bool]string{false: "HTTP/1.1 200 ", true: "HTTP/1.1 429 "}[once && n == 1]
			if said := sh(t, s, ask+"\n"+line); !strings.HasPrefix(said, want) ||
				strings.Contains(line, "/peek ") && !strings.Contains(said, `"allowed":false`) {
				t.Errorf("not %q: %s%s", want, line, said)
			}
		}
	}
}

// The page of the API begins with three requests: the first requests a code, the second checks it,
// the third redeems the proof. They work unchanged after the key and the ellipses are replaced.
func TestThePageOfTheAPIBeginsWithRequests(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Start(1)
	page := string(s.Get("/docs").Raw)
	_, tasks, _ := strings.Cut(page, `id="tasks"`)
	tasks, _, _ = strings.Cut(tasks, `id="documents"`)
	blocks := regexp.MustCompile(`(?s)<pre><code>(.*?)</code></pre>`).FindAllStringSubmatch(tasks, 4)
	if len(blocks) != 3 || strings.Index(page, `id="requests"`) < strings.Index(page, `id="tasks"`) {
		t.Fatalf("it begins with %q", blocks)
	}
	run := func(task int, given string) string {
		lines := html.UnescapeString(blocks[task][1])
		if given != "" {
			first, rest, _ := strings.Cut(lines, "\n")
			servertest.Same(t, "the line to fill in", strings.Contains(first, "=…"), true)
			lines = given + "\n" + rest
		}
		return sh(t, s, lines)
	}
	sent := run(0, "")
	id := regexp.MustCompile(`"id":"(\w+)"`).FindStringSubmatch(sent)
	if id == nil {
		t.Fatal(sent)
	}
	checked := run(1, "id="+id[1]+" code="+s.CodeIn(s.AwaitMail("ana@example.com", 1)[0]))
	proof := regexp.MustCompile(`"valid":true,"proof":"([^"]+)"`).FindStringSubmatch(checked)
	if proof == nil {
		t.Fatal(checked)
	}
	if redeemed := run(2, "proof="+proof[1]); !strings.Contains(redeemed, `"to":"ana@example.com"`) {
		t.Error(redeemed)
	}
}
