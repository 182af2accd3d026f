package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"sendcode/tools/bench/report"
)

// contender is a program that is measured.
type contender struct {
	name    string
	base    string // host:port
	process *child

	database string // URL
}

// child is a program that ends when its input does.
type child struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
	ended  bool
}

func (c *child) Close() error {
	if c.ended {
		return nil
	}
	c.ended = true
	return errors.Join(c.input.Close(), c.cmd.Wait())
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// start runs a program whose first line is its address.
func (b *rig) start(name string, cmd *exec.Cmd) (c contender, err error) {
	log, err := os.CreateTemp(b.dir, "log-")
	if err != nil {
		return c, err
	}
	defer log.Close()
	cmd.Stderr = log
	x := &child{cmd: cmd}
	if x.input, err = cmd.StdinPipe(); err != nil {
		return c, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return c, err
	}
	if err := cmd.Start(); err != nil {
		return c, err
	}
	b.closers = append(b.closers, x.Close)
	x.output = bufio.NewReader(output)
	address, err := x.output.ReadString('\n')
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		return c, fmt.Errorf("%s did not start: %w: %s", name, err, said)
	}
	return contender{name: name, base: strings.TrimPrefix(strings.TrimSpace(address), "http://"), process: x}, nil
}

// self runs this program as one of its commands.
func self(args ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(program, args...), nil
}

// addresses are where a program finds its servers.
type addresses struct{ redis, postgres, mail string }

func (b *rig) direct() addresses {
	return addresses{redis: b.redis.Addr(), postgres: b.postgres.Addr(), mail: b.mails.addr}
}

// serviceSettings are those in which services of one bench differ.
type serviceSettings struct {
	name     string
	database string    // URL; empty: a new one
	profile  string    // file
	to       addresses // empty: directly
	more     []string  // of its environment
}

// startService runs the service as a child: by environment alone, as the binary does.
func (b *rig) startService(ctx context.Context, s serviceSettings) (contender, error) {
	if s.to == (addresses{}) {
		s.to = b.direct()
	}
	if s.database == "" {
		var err error
		if s.database, err = b.postgres.CreateDatabase(ctx); err != nil {
			return contender{}, err
		}
	}
	cmd, err := self(serveCommand, s.profile)
	if err != nil {
		return contender{}, err
	}
	limits, err := b.writeLimit()
	if err != nil {
		return contender{}, err
	}
	cmd.Env = append(s.more, "SENDCODE_CONFIG="+limits,
		"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_API_KEY="+apiKey, "SENDCODE_DATA_DIR="+b.path("data-"+s.name),
		"SENDCODE_REDIS_URL=redis://"+s.to.redis+"/0",
		"SENDCODE_DATABASE_URL="+strings.Replace(s.database, b.postgres.Addr(), s.to.postgres, 1),
		"SENDCODE_SMTP_URL=smtp://"+s.to.mail+"?conns=16")
	c, err := b.start(report.Ours, cmd)
	c.database = s.database
	return c, err
}

func (b *rig) buildFloor(ctx context.Context) (string, error) {
	program := b.path("floor")
	said, err := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", program, "sendcode/tools/floor").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the floor: %w: %s", err, said)
	}
	return program, nil
}

func (b *rig) startFloor(ctx context.Context, program, kind string, to addresses) (contender, error) {
	database, err := b.postgres.CreateDatabase(ctx)
	if err != nil {
		return contender{}, err
	}
	cmd := exec.Command(program)
	cmd.Env = []string{
		"GOGC=400", // as the service has
		"FLOOR_KIND=" + kind, "FLOOR_SAMPLES=" + b.samples, "FLOOR_REDIS_URL=redis://" + to.redis + "/0",
		"FLOOR_DATABASE_URL=" + strings.Replace(database, b.postgres.Addr(), to.postgres, 1), "FLOOR_SMTP_ADDR=" + to.mail,
	}
	return b.start(kind, cmd)
}
