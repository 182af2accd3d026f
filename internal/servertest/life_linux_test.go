package servertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// parentVariable makes the test binary play the parent that is to be killed.
const parentVariable = "SENDCODE_PARTS_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		if err := playParent(); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// playParent starts every kind of server, says which processes and directories
// there are, and waits to be killed.
func playParent() error {
	redis, err := StartRedis(context.Background())
	if err != nil {
		return err
	}
	fmt.Println("pid", redis.PID())
	fmt.Println("dir", redis.place.dir)
	if err := playPostgres(); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin) // for ever
	return err
}

func playPostgres() error {
	s, err := StartPostgres(context.Background())
	if err != nil {
		return err
	}
	fmt.Println("pid", s.PID())
	fmt.Println("dir", s.place.dir)
	return nil
}

func TestKilledParentLeavesNoChild(t *testing.T) {
	Redis(t) // these skip where there is none
	Postgres(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=1")
	parent.Stderr = os.Stderr
	if _, err := parent.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	process, err := Run(parent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	pids, dirs := readFamily(t, out)
	process.Kill()
	for _, pid := range pids {
		awaitGone(t, pid)
	}
	Redis(t) // a new place sweeps the old ones, unless another process is at it
	for name, dir := range dirs {
		awaitTrue(t, func() bool { return removed(name, dir) }, "the directory of a killed parent is still there: %s", name)
	}
}

// removed is also so when the place has become another's, with a new directory.
func removed(name string, dir os.FileInfo) bool {
	now, err := os.Stat(name)
	return os.IsNotExist(err) || err == nil && !os.SameFile(dir, now)
}

func readFamily(t *testing.T, out io.Reader) (pids []int, dirs map[string]os.FileInfo) {
	t.Helper()
	dirs = make(map[string]os.FileInfo)
	const redis, postgres = 1, 1
	for lines := bufio.NewScanner(out); lines.Scan(); {
		kind, value, _ := strings.Cut(lines.Text(), " ")
		switch kind {
		case "pid":
			pid, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			if !gone(pid) { // Postgres has short-lived children as well
				pids = append(pids, pid)
			}
		case "dir":
			dir, err := os.Stat(value)
			if err != nil {
				t.Fatal(err)
			}
			dirs[value] = dir
		case "ready":
			if len(pids) < redis+postgres || len(dirs) != 2 {
				t.Fatalf("%d processes, %d directories", len(pids), len(dirs))
			}
			return pids, dirs
		default:
			t.Fatal(lines.Text())
		}
	}
	t.Fatal("the parent ended by itself")
	return nil, nil
}
