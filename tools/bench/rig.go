package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/parts"
)

const apiKey = "sk_0123456789abcdefghijABCDEFGHIJ"

// rig is what both programs share.
type rig struct {
	dir        string
	redis      *parts.RedisServer
	postgres   *parts.PostgresServer
	mails      *receiver
	fsync      string
	recipients atomic.Int64 // nobody is written to twice
	closers    []func() error
}

func openBench(ctx context.Context) (_ *rig, err error) {
	b := &rig{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "sendcode-bench-"); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, func() error { return os.RemoveAll(b.dir) })
	if b.redis, err = parts.StartRedis(ctx, "--appendonly", "yes", "--appendfsync", "everysec"); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.redis.Close)
	// As Postgres is by default, and not as tests start it.
	if b.postgres, err = parts.StartPostgres(ctx, "fsync=on", "full_page_writes=on", "max_wal_size=1GB"); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.postgres.Close)
	if b.mails, err = newReceiver(); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.mails.Close)
	return b, b.ask(ctx, "SHOW fsync", &b.fsync)
}

func (b *rig) ask(ctx context.Context, sql string, into any) error {
	conn, err := pgx.Connect(ctx, b.postgres.URL())
	if err != nil {
		return err
	}
	return errors.Join(conn.QueryRow(ctx, sql).Scan(into), conn.Close(ctx))
}

func (b *rig) close() error {
	var errs []error
	for _, end := range slices.Backward(b.closers) {
		errs = append(errs, end())
	}
	b.closers = nil
	return errors.Join(errs...)
}

func (b *rig) startFloor(ctx context.Context) (contender, error) {
	program := filepath.Join(b.dir, "floor")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "sendcode/tools/floor")
	if said, err := build.CombinedOutput(); err != nil {
		return contender{}, fmt.Errorf("building the floor: %w: %s", err, said)
	}
	database, err := b.postgres.CreateDatabase(ctx)
	if err != nil {
		return contender{}, err
	}
	cmd := exec.Command(program)
	cmd.Env = []string{"FLOOR_REDIS_URL=" + b.redis.URL(), "FLOOR_DATABASE_URL=" + database, "FLOOR_SMTP_ADDR=" + b.mails.addr()}
	return b.start("floor", cmd)
}

// startService runs the service as a child, with its processor time written to profile, if that is named.
func (b *rig) startService(ctx context.Context, profile string) (contender, error) {
	self, err := os.Executable()
	if err != nil {
		return contender{}, err
	}
	database, err := b.postgres.CreateDatabase(ctx)
	if err != nil {
		return contender{}, err
	}
	cmd := exec.Command(self, serveCommand, profile)
	cmd.Env = []string{
		"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_API_KEY=" + apiKey, "SENDCODE_DATA_DIR=" + filepath.Join(b.dir, "data"+filepath.Base(profile)),
		"SENDCODE_REDIS_URL=" + b.redis.URL(), "SENDCODE_DATABASE_URL=" + database,
		"SENDCODE_SMTP_URL=smtp://" + b.mails.addr() + "?conns=16",
	}
	return b.start("sendcode", cmd)
}

// start runs a program until its input is closed; its first line says where it listens.
func (b *rig) start(name string, cmd *exec.Cmd) (contender, error) {
	log, err := os.Create(filepath.Join(b.dir, name+".log"))
	if err != nil {
		return contender{}, err
	}
	defer log.Close()
	cmd.Stderr = log
	input, err := cmd.StdinPipe()
	if err != nil {
		return contender{}, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return contender{}, err
	}
	if err := cmd.Start(); err != nil {
		return contender{}, err
	}
	child := &child{cmd: cmd, input: input}
	b.closers = append(b.closers, child.Close)
	base, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		return contender{}, fmt.Errorf("%s did not start: %w: %s", name, err, said)
	}
	return contender{name: name, base: strings.TrimPrefix(strings.TrimSpace(base), "http://"), process: child}, nil
}

// child is a program that ends when its input does.
type child struct {
	cmd   *exec.Cmd
	input io.Closer
	ended bool
}

func (c *child) Close() error {
	if c.ended {
		return nil
	}
	c.ended = true
	return errors.Join(c.input.Close(), c.cmd.Wait())
}
