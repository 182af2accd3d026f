package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"sendcode/internal/kit/servertest"
)

// runProcess runs a command line as a process of its own, and returns its standard output.
func runProcess(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	cmd := newProcess(t, environ...)
	cmd.Args = append(cmd.Args, args...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v %s", args, err, out)
	}
	return string(out)
}

// shell prepares a shell script that runs in dir. The variable sendcode is the path of this
// program. The script must end with an exec of this program, so that signals reach it.
func shell(t *testing.T, dir, script string, environ ...string) *exec.Cmd {
	t.Helper()
	cmd := newProcess(t, append(environ, "sendcode="+os.Args[0])...)
	cmd.Path, cmd.Args, cmd.Dir = "/bin/sh", []string{"sh", "-euc", script}, dir
	return cmd
}

func stop(t *testing.T, cmd *exec.Cmd, out *bufio.Reader) {
	t.Helper()
	servertest.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	_, _ = io.ReadAll(out)
	servertest.OK(t, cmd.Wait())
}

// The service starts with what each command prints, pasted as the command says: into a shell, a
// file of variables, or a file of settings.
func TestStartsWithWhatCommandsPrint(t *testing.T) {
	const others = "\nSENDCODE_SMTP_URL='smtp://u:p@127.0.0.1:1'\nSENDCODE_MAIL_FROM='Shop <codes@shop.example>'\nSENDCODE_PUBLIC_URL=https://codes.example\n"
	const load = "set -a; . ./env; set +a; exec \"$sendcode\" serve"
	install := func(dir, where, show string) string {
		return runProcess(t, []string{"SENDCODE_SMTP_URL=smtp://u:p@127.0.0.1:1"}, "init", "--yes", "--root="+dir, "--where="+where, "--show="+show,
			"--origin=https://shop.example", "--public-url=https://codes.example", "--mail-from=Shop <codes@shop.example>")
	}
	for name, prepare := range map[string]func(dir string) (script string){
		"key --kind=env, alone": func(dir string) string {
			write(t, dir, "env", runProcess(t, nil, "key", "--kind=env"))
			return load
		},
		"key --kind=env, for other machines": func(dir string) string {
			write(t, dir, "env", runProcess(t, nil, "key", "--kind=env")+others+"SENDCODE_ADDR=:0\nSENDCODE_ADMIN_ADDR=127.0.0.1:0\n")
			return load
		},
		"key --kind=env, with a widget": func(dir string) string {
			write(t, dir, "env", runProcess(t, nil, "key", "--kind=env")+others+"SENDCODE_ORIGINS=https://shop.example\n")
			return load
		},
		"each kind of key": func(string) string {
			return `export SENDCODE_SECRET_KEYS=$("$sendcode" key --kind ring) SENDCODE_INDEX_KEY=$("$sendcode" key --kind index) \
				SENDCODE_API_KEY=$("$sendcode" key) SENDCODE_PUBLIC_KEY=$("$sendcode" key --kind public) \
				SENDCODE_WEBHOOK_SECRETS=default:$("$sendcode" key --kind webhook); exec "$sendcode"`
		},
		"what an error asks for": func(dir string) string {
			write(t, dir, "settings.yaml", "apps:\n  - name: shop\n    webhook: {url: https://shop.example/hook}\n")
			cmd := shell(t, dir, `exec "$sendcode" config`, "SENDCODE_CONFIG=settings.yaml")
			output, _ := cmd.CombinedOutput()
			give := regexp.MustCompile(`give (SENDCODE_WEBHOOK_SECRETS=.*)`).FindStringSubmatch(string(output))
			if give == nil {
				t.Fatalf("%s", output)
			}
			return "sendcode() { command \"$sendcode\" \"$@\"; }; export SENDCODE_CONFIG=settings.yaml " + give[1] + "; exec \"$sendcode\""
		},
		"the line of key": func(dir string) string {
			cmd := newProcess(t)
			cmd.Args = append(cmd.Args, "key", "--kind=public")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			servertest.OK(t, cmd.Run())
			line := regexp.MustCompile(`(?m)^- \{.*\}$`).FindString(stderr.String())
			write(t, dir, "settings.yaml", "apps:\n  - name: shop\n    origins: [https://shop.example]\n    keys:\n      "+line+"\n")
			return `SENDCODE_CONFIG=settings.yaml exec "$sendcode"`
		},
		"config": func(dir string) string {
			write(t, dir, "settings.yaml", runProcess(t, []string{"SENDCODE_ADDR=127.0.0.1:0"}, "config"))
			return `SENDCODE_CONFIG=settings.yaml exec "$sendcode"`
		},
		"config --example": func(dir string) string {
			write(t, dir, "settings.yaml", runProcess(t, nil, "config", "--example"))
			return `SENDCODE_CONFIG=settings.yaml exec "$sendcode"`
		},
		"init for systemd, the page": func(dir string) string {
			install(dir, "systemd", "page")
			return loadInstalled(dir)
		},
		"init for systemd, the widget": func(dir string) string {
			install(dir, "systemd", "widget")
			return loadInstalled(dir)
		},
		"init for compose": func(dir string) string {
			install(dir, "compose", "widget")
			// These are the variables that compose.yaml sets: those of .env, and the files of
			// secrets.
			return `set -a; . ./.env; set +a; for f in secrets/*; do
				export "SENDCODE_$(basename "$f" | tr a-z A-Z)_FILE=$f"; done; exec "$sendcode"`
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := shell(t, dir, prepare(dir))
			var log servertest.Text
			cmd.Stderr = &log
			pipe, err := cmd.StdoutPipe()
			servertest.OK(t, err)
			servertest.OK(t, cmd.Start())
			out, ended := bufio.NewReader(pipe), make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			served := func() bool { return strings.Contains(log.String(), `"msg":"serving"`) }
			servertest.Await(t, "a start", func() bool { return served() || len(ended) == 1 })
			if !served() {
				t.Fatalf("it did not start: %s", log.String())
			}
			servertest.OK(t, cmd.Process.Signal(syscall.SIGTERM))
			_, _ = io.ReadAll(out)
			servertest.OK(t, <-ended)
		})
	}
}

// loadInstalled returns a script that starts the program with the variables that init wrote for
// systemd. The script uses the files below dir, and free ports.
func loadInstalled(dir string) string {
	return fmt.Sprintf(`sed -i.old 's/^addr: .*/addr: 127.0.0.1:0/; s/^admin_addr: .*/admin_addr: 127.0.0.1:0/' %[1]s/etc/sendcode/sendcode.yaml
		unset SENDCODE_ADDR; set -a; . %[1]s/etc/sendcode/env; set +a
		SENDCODE_CONFIG=%[1]s/etc/sendcode/sendcode.yaml SENDCODE_DATA_DIR=%[1]s/data exec "$sendcode"`, "'"+dir+"'")
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	servertest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// A reader can use everything that the banner of a trial shows: the command, the links, the token
// of the metrics, and the widget's two lines, on both loopback addresses.
func TestBannerShowsWorkingCommandsAndLinks(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		cmd := newProcess(t, "SENDCODE_ADDR="+addr)
		var log servertest.Text
		cmd.Stderr = &log
		pipe, err := cmd.StdoutPipe()
		servertest.OK(t, err)
		servertest.OK(t, cmd.Start())
		out := bufio.NewReader(pipe)
		banner := ""
		for !strings.Contains(banner, "</send-code>") {
			line, err := out.ReadString('\n')
			if banner += line; err != nil {
				if strings.Contains(log.String(), "cannot assign requested address") { // the machine has no IPv6
					break
				}
				t.Fatalf("%s%s", banner, log.String())
			}
		}
		if !strings.Contains(banner, "</send-code>") {
			_ = cmd.Wait()
			continue
		}
		find := func(pattern string) string {
			t.Helper()
			found := regexp.MustCompile(pattern).FindStringSubmatch(banner)
			if found == nil {
				t.Fatalf("no %s in %s", pattern, banner)
			}
			return found[1]
		}
		answers := func(status int, url string, headers ...string) {
			t.Helper()
			r, err := http.NewRequest(http.MethodGet, url, nil)
			servertest.OK(t, err)
			for i := 0; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			jar, _ := cookiejar.New(nil) // a browser keeps the mailbox's cookie; New fails only because of options
			resp, err := (&http.Client{Jar: jar}).Do(r)
			servertest.OK(t, err)
			resp.Body.Close()
			servertest.Same(t, url, resp.StatusCode, status)
		}
		command := find(`(?s)(curl -i .*?example\.com"}')`)
		output, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
		if err != nil || !strings.Contains(string(output), "HTTP/1.1 202 ") {
			t.Errorf("%s: %v %s", command, err, output)
		}
		if url := find(`curl -i (\S+)`); strings.Contains(addr, "[") && !strings.HasPrefix(url, "'") {
			t.Errorf("zsh takes the brackets of %s for a pattern", url)
		}
		answers(http.StatusOK, find(`page +(\S+)`))
		answers(http.StatusOK, find(`mailbox +(\S+)`))
		answers(http.StatusOK, find(`console +(\S+)`))
		answers(http.StatusUnauthorized, find(`metrics +(\S+)`))
		answers(http.StatusOK, find(`metrics +(\S+)`), "Authorization", "Bearer "+find(`with the token (\S+)`))
		answers(http.StatusOK, find(`src="(\S+)"`))
		servertest.Same(t, "the key", find(`API key +(\S+)`), find(`Bearer (\S+)'`))
		post := func(body string) int {
			r, err := http.NewRequest(http.MethodPost, strings.TrimSuffix(find(`page +(\S+)`), "/")+"/v1/verifications", strings.NewReader(body))
			servertest.OK(t, err)
			r.Header.Set("Authorization", "Bearer "+find(`public-key="(\S+)"`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Origin", find(`into a page of (\S+),`))
			resp, err := http.DefaultClient.Do(r)
			servertest.OK(t, err)
			resp.Body.Close()
			return resp.StatusCode
		}
		servertest.Same(t, "the widget's send", post(`{"channel":"email","to":"mei@example.com"}`), http.StatusAccepted)
		stop(t, cmd, out)
	}
}
