package servertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// owner is the user that runs Postgres. Postgres refuses to run as root. If root runs the tests,
// the owner is the user postgres or, if there is none, nobody.
type owner struct {
	credential *syscall.Credential // nil: this process's own user
}

func postgresOwner() (owner, error) {
	if os.Getuid() != 0 {
		return owner{}, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	if err != nil {
		return owner{}, fmt.Errorf("postgres cannot run as root, and there is no other user to run it as: %w", err)
	}
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	return owner{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, errors.Join(uidErr, gidErr)
}

// give makes the owner own a path.
func (o owner) give(path string) error {
	if o.credential == nil {
		return nil
	}
	return os.Chown(path, int(o.credential.Uid), int(o.credential.Gid))
}

// command returns a command that runs in dir as the owner. Its environment has no PG variables of
// the caller, and its messages are in English.
func (o owner) command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: o.credential}
	return cmd
}
