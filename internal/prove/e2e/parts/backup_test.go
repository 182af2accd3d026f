//go:build nightly

package parts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// In a container, only the program and its data exist, and the program can write nothing else. It
// sends a backup of its file through a pipe while it serves under load, and another process
// restores the backup. Events from before the backup count in the restored file, and its codes are
// right. A truncated archive restores nothing.
func TestBackupThroughAPipe(t *testing.T) {
	s := oneFile(t)
	delete(s.Env, "SENDCODE_CONFIG")
	s.Env["SENDCODE_CONFIG_YAML"] = "policies:\n  default:\n" + apptest.LongRules
	root, user := t.TempDir(), 65532
	build := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(root, "sendcode"), "./cmd/sendcode")
	build.Dir, build.Env = "../../../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	contained, alone := os.Geteuid() == 0, root
	if !contained {
		t.Run("alone in its root", func(t *testing.T) { t.Skip("root alone may change a process's root and user") })
	}
	for _, name := range []string{"data", "restored", "cut"} {
		apptest.Must(t, os.Mkdir(filepath.Join(root, name), 0o700))
		if contained {
			apptest.Must(t, os.Chown(filepath.Join(root, name), user, user))
			alone = ""
		}
	}
	program := func(data string, args ...string) *exec.Cmd {
		s.Env["SENDCODE_DATA_DIR"] = filepath.Join(alone+"/", data)
		cmd := s.Program("serve")
		cmd.Path, cmd.Args, cmd.Stderr = alone+"/sendcode", append([]string{"sendcode"}, args...), s.Printed
		if contained {
			cmd.Dir, cmd.SysProcAttr = "/",
				&syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
		}
		return cmd
	}
	serve := func(data string) (base string) {
		t.Helper()
		s.Env["SENDCODE_ADDR"] = fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t))
		process, err := servertest.Run(program(data, "serve"))
		apptest.Must(t, err)
		t.Cleanup(process.Kill)
		base = "http://" + s.Env["SENDCODE_ADDR"]
		s.Await("the service", func() bool {
			a, err := http.Get(base + "/readyz")
			return err == nil && a.Body.Close() == nil && a.StatusCode == http.StatusOK
		})
		return base
	}
	ask := func(base, to string) apptest.Answer {
		a, err := s.At(base, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+to+`"`+known+`}`)
		if err != nil {
			t.Error(err) // Fatal is not allowed: callers run in another goroutine
		}
		return a
	}

	base := serve("data")
	ana := ask(base, apptest.Ana)
	s.Is("a send", ana, http.StatusAccepted)
	code := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0])
	var mu sync.Mutex
	var load sync.WaitGroup
	accepted := map[string]time.Time{}
	loaded, stop := context.WithCancel(t.Context())
	defer load.Wait()
	defer stop()
	for i := range 8 {
		load.Go(func() {
			for n := 0; loaded.Err() == nil; n++ {
				to := fmt.Sprintf("person%d.%d@example.com", i, n)
				if a := ask(base, to); a.StatusCode == http.StatusAccepted {
					mu.Lock()
					accepted[to] = time.Now()
					mu.Unlock()
				}
			}
		})
	}
	s.Await("a thousand sends", func() bool { mu.Lock(); defer mu.Unlock(); return len(accepted) >= 1000 })
	began := time.Now()
	var archive bytes.Buffer
	backup, restore := program("data", "backup", "--with-secrets", "-"), program("restored", "restore", "-")
	pipe, err := restore.StdinPipe()
	apptest.Must(t, err)
	backup.Stdout = io.MultiWriter(&archive, pipe)
	apptest.Must(t, restore.Start())
	defer func() { _ = restore.Process.Kill() }() // does nothing unless the backup has failed
	apptest.Must(t, backup.Run())
	apptest.Must(t, pipe.Close())
	apptest.Must(t, restore.Wait())
	stop()
	load.Wait()

	base = serve("restored")
	before := 0
	for to, at := range accepted {
		if at.Before(began) {
			before++
			if a := ask(base, to); a.StatusCode != http.StatusTooManyRequests {
				t.Errorf("%s was accepted %v before the backup and is answered %d", to, began.Sub(at), a.StatusCode)
			}
		}
	}
	check, err := s.At(base, http.MethodPost, "/v1/verifications/"+ana.ID+"/check", `{"code":"`+code+`"}`)
	apptest.Must(t, err)
	s.Is("a code from before", check, http.StatusOK, check.Valid)
	t.Logf("%d sends before the backup and %d beside or after it; an archive of %d bytes", before, len(accepted)-before, archive.Len())
	for range 20 {
		cut := rand.IntN(bytes.LastIndex(archive.Bytes(), []byte("manifest.json")))
		restore := program("cut", "restore", "-")
		restore.Stdin = bytes.NewReader(archive.Bytes()[:cut])
		if err := restore.Run(); err == nil {
			t.Errorf("an archive that was cut after %d bytes is restored", cut)
		}
		if files, err := os.ReadDir(filepath.Join(root, "cut")); err != nil || len(files) != 1 || files[0].Name() != "lock" {
			t.Fatalf("cut after %d bytes: left %v, %v", cut, files, err)
		}
	}
}
