package servertest

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/gofrs/flock"
)

// Ports lie below the range that kernels give to outgoing connections (Linux: 32768, macOS: 49152).
// Otherwise a client that redials a stopped server's port could get that very port, connect to
// itself, and keep the server from coming back.
const (
	firstPort = 20000
	ports     = 10000
)

// place is a port and a directory that belong to one server until it releases them, even while the
// server is stopped. A file lock guards them against other processes that start servers at the same
// time. The lock is released when this process ends, even if it is killed.
type place struct {
	port int
	dir  string
	lock *flock.Flock
}

// claim takes a free place with an empty directory.
func claim() (*place, error) { return claimIn(fastTempDir()) }

// claimIn takes a free place with a directory somewhere in parent.
func claimIn(parent string) (*place, error) {
	base, err := baseDirIn(parent)
	if err != nil {
		return nil, err
	}
	sweep(base)
	for range 500 {
		p := newPlace(base, firstPort+rand.IntN(ports))
		if ok, err := p.take(); err != nil {
			return nil, err
		} else if ok {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no free port from %d to %d", firstPort, firstPort+ports-1)
}

func newPlace(base string, port int) *place {
	name := filepath.Join(base, strconv.Itoa(port))
	return &place{port: port, dir: name, lock: flock.New(name + lockSuffix)}
}

const lockSuffix = ".lock"

func (p *place) take() (bool, error) {
	if ok, err := p.lock.TryLock(); !ok {
		return false, err
	}
	if !free(p.addr()) {
		return false, p.lock.Close()
	}
	if err := errors.Join(os.RemoveAll(p.dir), os.Mkdir(p.dir, 0o700)); err != nil {
		return false, errors.Join(err, p.lock.Close())
	}
	return true, nil
}

// free reports whether a server can listen on a port. Meanwhile no child process is started: before
// a child runs its program, it has a copy of each socket, so the port would stay taken although
// this process closed it.
func free(addr string) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp4", addr)
	return err == nil && l.Close() == nil
}

// AwaitFree waits until a server can listen again on a port that this process has closed: a child
// process may still have a copy of the socket.
func AwaitFree(t testing.TB, addr string) {
	t.Helper()
	Await(t, "the port "+addr, func() bool { return free(addr) })
}

func (p *place) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// release removes the directory and frees the port. A second call does nothing.
func (p *place) release() error {
	if !p.lock.Locked() {
		return nil
	}
	return errors.Join(os.RemoveAll(p.dir), p.lock.Close())
}

func (p *place) logPath() string { return filepath.Join(p.dir, "log") }

// write writes a file into the place, and returns the file's name.
func (p *place) write(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(p.dir, name)
	mustOrSkip(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// sweep removes the directories of processes that were killed, whose locks are free. If a directory
// cannot be removed now, the next sweep tries again.
func sweep(base string) {
	entries, _ := os.ReadDir(base)
	for _, entry := range entries {
		port, err := strconv.Atoi(entry.Name())
		if err != nil || !entry.IsDir() {
			continue
		}
		p := newPlace(base, port)
		if ok, _ := p.lock.TryLock(); ok {
			_ = p.release()
		}
	}
}

// baseDirIn returns a directory of its own for each user, so that one user's sweep does not remove
// another user's place. Its mode lets other users pass through, because Postgres may run as another
// user.
func baseDirIn(parent string) (string, error) {
	uid := os.Getuid()
	base := filepath.Join(parent, "sendcode-parts-"+strconv.Itoa(uid))
	err := os.Mkdir(base, 0o755)
	if err == nil {
		err = os.Chmod(base, 0o755) // independent of the umask
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(base)
	if err != nil {
		return "", err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(stat.Uid) != uid {
		return "", fmt.Errorf("%s is not a directory of this user", base)
	}
	return base, nil
}
