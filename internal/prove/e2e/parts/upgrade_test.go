//go:build nightly

// Only `make nightly` runs these tests, since they build the older program from the history.

package parts

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/commands"
)

// olderVersion is the version before this one, from which the test upgrades. Until the first tag,
// it is a commit whose schema this version can migrate. Empty: there is none.
const olderVersion = "dfe0f1613"

// buildOlder builds sendcode of the older version. It also builds that version's test program,
// which serves as sendcode does and prints its address as this version's test program does.
func buildOlder(t *testing.T) (sendcode, serving string) {
	t.Helper()
	if olderVersion == "" {
		t.Skip("this is the first version")
	}
	root, err := filepath.Abs("../../../..")
	apptest.Must(t, err)
	find := exec.Command("git", "-C", root, "rev-parse", "--verify", "--quiet", olderVersion+"^{commit}")
	if out, err := find.CombinedOutput(); find.ProcessState.ExitCode() == 1 {
		t.Skipf("the history has no commit %s, or the clone is shallow", olderVersion)
	} else if err != nil {
		t.Fatalf("%v: %v: %s", find, err, out)
	}
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	sendcode, serving = filepath.Join(dir, "sendcode"), filepath.Join(dir, "serving")
	run := func(in, name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = in
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	run(root, "git", "worktree", "add", "--detach", tree, olderVersion)
	t.Cleanup(func() { run(root, "git", "worktree", "remove", "--force", tree) })
	run(tree, "go", "build", "-buildvcs=false", "-o", sendcode, "./cmd/sendcode")
	run(tree, "go", "test", "-c", "-o", serving, "./internal/prove/e2e/parts")
	return sendcode, serving
}

// change restarts the replicas one after another with another program. If there are two, one serves
// while the other one restarts, so for a time two versions run side by side.
func (p *provingRun) change(program string) fault {
	name := "changes to this version"
	if program != "" {
		name = "changes to " + olderVersion
	}
	return fault{name, func(p *provingRun, ctx context.Context) {
		for i := range p.replicas {
			p.programs[i] = program
			p.restartReplica(i)
			p.pause(ctx, 2000, 2000)
		}
	}}
}

// Under load, replicas of the older version are replaced by this version, then by the older
// version, and then by this version again. Then processes of both versions are killed. The promises
// of both versions hold all the time.
func TestProveAnUpgrade(t *testing.T) {
	_, older := buildOlder(t)
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			p := newProvingRun(f.open(t), f.name+", an upgrade from "+olderVersion)
			p.programs = [2]string{older, older}
			p.mixed.Store(true)
			began := time.Now()
			p.start(f.replicas)
			p.underLoad(func(ctx context.Context) {
				for _, change := range []fault{p.change(""), p.change(older), p.change("")} {
					p.fail(ctx, 0, 0, []fault{change})
				}
				p.programs[len(p.replicas)-1] = older
				p.restartReplica(len(p.replicas) - 1)
				p.fail(ctx, *proving, 0, slices.Clone(ofProcesses))
				p.fail(ctx, 0, 0, []fault{p.change("")})
				// As UPGRADING.md says, back ends send "known" only when all replicas are upgraded.
				// Until then, a person has the places in reserve at one replica and not at another,
				// as under two policies.
				p.mixed.Store(false)
				p.observed.Changes = append(p.observed.Changes, [2]time.Time{began, time.Now()})
				p.fail(ctx, *proving/2, 0, slices.Clone(ofProcesses))
			})
			p.report()
		})
	}
}

// A SQLite file that the older version wrote stays usable in five cases: in place after a kill;
// from a backup that the older version made while it served; after a return to the older version;
// from a backup that this version made, under the older one; and in Postgres. In each, a recipient
// waits as before. In the first two, a code from before is approved. A send that waited for its
// mail server arrives.
func TestFilesOfAnUpgrade(t *testing.T) {
	sendcode, older := buildOlder(t)
	s := oneFile(t)
	s.Policy("    - {name: hour, scope: recipient, limit: 1, window: 1h}\n")
	serve := func(program string) *apptest.Process {
		cmd := s.Program("serve")
		if program != "" {
			cmd.Path = program
		}
		return s.SpawnCommand(cmd)
	}
	post := func(p *apptest.Process, path, body string) apptest.Answer {
		t.Helper()
		a, err := s.At(p.Base, http.MethodPost, path, body)
		apptest.Must(t, err)
		return a
	}
	ask := func(p *apptest.Process, to string) apptest.Answer {
		t.Helper()
		return post(p, "/v1/verifications", `{"channel":"email","to":"`+to+`"}`)
	}
	const late = "late@example.com"
	stop := func(p *apptest.Process) {
		t.Helper()
		apptest.Must(t, p.Cmd.Process.Signal(syscall.SIGTERM))
		apptest.Must(t, p.Cmd.Wait())
	}

	p := serve(older)
	first := ask(p, apptest.Ana)
	s.Is("a send", first, http.StatusAccepted)
	code := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0])
	before := ask(p, apptest.Ana)
	s.Is("a refusal", before, http.StatusTooManyRequests)
	s.SMTP.SetScript(smtptest.Script{Rules: []smtptest.Rule{{Stage: smtptest.Rcpt, To: late, Reply: "450 4.7.1 greylisted"}}})
	s.Is("a send that waits", ask(p, late), http.StatusAccepted)
	s.Await("its first attempt", func() bool { return s.MailServerGot("RCPT TO:<"+late) > 0 })

	wantSameWait := func(what string, p *apptest.Process) {
		t.Helper()
		a := ask(p, apptest.Ana)
		s.Is(what, a, http.StatusTooManyRequests)
		if d := a.Quota.RetryAt.Sub(before.Quota.RetryAt).Abs(); d > time.Second || a.Quota.BlockedBy != before.Quota.BlockedBy {
			t.Errorf("%s: the wait is %v off, by %s", what, d, a.Quota.BlockedBy)
		}
	}
	approved := func(what string, p *apptest.Process) {
		t.Helper()
		a := post(p, "/v1/verifications/"+first.ID+"/check", `{"code":"`+code+`"}`)
		s.Is(what, a, http.StatusOK, a.Valid)
	}

	folder := s.Env["SENDCODE_DATA_DIR"]
	secrets, err := os.ReadFile(filepath.Join(folder, "secrets.yaml"))
	apptest.Must(t, err)
	withSecrets := func() (folder string) {
		folder = t.TempDir()
		apptest.Must(t, os.WriteFile(filepath.Join(folder, "secrets.yaml"), secrets, 0o600))
		return folder
	}
	restored, newer := withSecrets(), withSecrets()
	backup := s.Program("serve")
	backup.Path, backup.Args = sendcode, []string{"sendcode", "backup", filepath.Join(restored, "sendcode.db")}
	if out, err := backup.CombinedOutput(); err != nil {
		t.Fatalf("backup: %v\n%s", err, out)
	}
	p.Kill()

	s.SMTP.SetScript(smtptest.Script{})
	p = serve("")
	wantSameWait("the file after a kill of the older version", p)
	s.AwaitMail(late, 1)
	approved("a code of the older version", p)
	apptest.Must(t, commands.Backup(t.Context(), s.Config(), filepath.Join(newer, "sendcode.db"), false, io.Discard))
	stop(p)

	p = serve(older)
	wantSameWait("the file after the way back", p)
	s.Is("a send of the older version", ask(p, "back@example.com"), http.StatusAccepted)
	s.AwaitMail("back@example.com", 1)
	stop(p)

	s.Env["SENDCODE_DATA_DIR"] = restored
	p = serve("")
	wantSameWait("the older version's backup", p)
	approved("a code in the backup", p)
	stop(p)

	s.Env["SENDCODE_DATA_DIR"] = newer
	p = serve(older)
	wantSameWait("this version's backup, under the older one", p)
	stop(p)

	s.Env["SENDCODE_DATA_DIR"] = folder
	parts := onPostgresAlone(t)
	apptest.Must(t, commands.MoveToPostgres(t.Context(), s.Config(), parts.Env["SENDCODE_DATABASE_URL"], io.Discard))
	s.Env["SENDCODE_DATABASE_URL"] = parts.Env["SENDCODE_DATABASE_URL"]
	p = serve("")
	wantSameWait("the copy in Postgres", p)
	stop(p)
}
