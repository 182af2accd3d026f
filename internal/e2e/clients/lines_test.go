package clients

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
)

// blocksOf returns the blocks of a language of a document.
func blocksOf(t *testing.T, page, language string) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../../" + page)
	apptest.Must(t, err)
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	return all
}

// sh runs lines of a document, with the address and the key that they name replaced by those of the
// service.
func sh(t *testing.T, s *apptest.Stack, lines string, replaced ...string) (said string) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	lines = strings.NewReplacer(append(replaced, "http://127.0.0.1:8080", s.Replicas[0].Base, "sk_…",
		s.Key)...).Replace(lines)
	command := exec.CommandContext(t.Context(), "sh", "-c", lines)
	command.Env = append(os.Environ(), "CODES_URL="+s.Replicas[0].Base, "CODES_KEY="+s.Key)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", lines, err, out)
	}
	return string(out)
}

// The lines of both READMEs ask for a code, are refused a second later, and check the code: each
// answer begins as the page shows it.
func TestTheLinesOfREADME(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"README.md", "README.zh-CN.md"} {
		s := apptest.Embedded(t).Start(1)
		shell := blocksOf(t, page, "sh")
		ask, check := shell[0], shell[2]
		sent := sh(t, s, ask)
		id := regexp.MustCompile(`"id":"(\w+)"`).FindStringSubmatch(sent)
		if !strings.HasPrefix(sent, "HTTP/1.1 202 Accepted") || id == nil ||
			!strings.Contains(sent, `"to":"a•••@example.com"`) {
			t.Fatalf("%s: %s", page, sent)
		}
		if refused := sh(t, s, ask); !strings.HasPrefix(refused, "HTTP/1.1 429 ") ||
			!strings.Contains(refused, `"blocked_by":"minute"`) {
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

// The line of docs/limits.md takes a place of the limit in docs/SIX-LIMITERS.md, and the body of a
// caller's own code in the quick start is taken.
func TestTheLinesOfLimitsAndOfOnesOwnCode(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Write(blocksOf(t, "docs/SIX-LIMITERS.md", "yaml")[0]).Start(1)
	if taken := sh(t, s, blocksOf(t, "docs/limits.md", "sh")[0]); !strings.HasPrefix(taken, "HTTP/1.1 200 OK") ||
		!strings.Contains(taken, `"minute";r=99;t=60`) {
		t.Error(taken)
	}
	body := blocksOf(t, "docs/quickstart.md", "json")[0]
	s.Is("one's own code", s.Post("/v1/verifications", body), http.StatusAccepted)
	if mail := s.AwaitMail("ana@example.com", 1)[0]; s.CodeIn(mail) != "739154" {
		t.Errorf("another code than in %s: %s", body, s.CodeIn(mail))
	}
}
