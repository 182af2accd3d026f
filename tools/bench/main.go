// Command bench measures whole sends over HTTP, until the mail has arrived, against the floors of tools/floor, and writes
// docs/PERFORMANCE.md. All programs run as processes of their own on one Redis, one Postgres on a disk that it waits for, and one
// mail server; they take turns, so that whatever else the machine does meets all of them.
//
//	go run ./tools/bench [-rounds 5] [-for 2s] [-callers 1,64,256] [-attackers 256] [-level 1m] [-profile] [-limiter] [-write docs/PERFORMANCE.md]
//	go run ./tools/bench -rows 1000000,10000000 [-write docs/PERFORMANCE.md]
//	go run ./tools/bench -admin 1000000,10000000 [-write docs/PERFORMANCE.md]
//	go run ./tools/bench -takes [-write docs/PERFORMANCE.md]
//	go run ./tools/bench -hour 1h [-write docs/PERFORMANCE.md]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sendcode/tools/bench/report"
)

// plan is what is asked for. A length or number of 0 leaves its part out.
type plan struct {
	rounds    int
	length    time.Duration
	callers   []int
	attackers int
	level     time.Duration // autovacuum off
	hour      time.Duration // autovacuum on; a run of its own
	rows      []int         // a run of its own
	admin     []int         // a run of its own
	takes     bool          // a run of its own
	profile   bool
	limiter   bool
	write     string // file
}

// commands are what this program is as a child of its own.
var commands = map[string]func(args []string) error{serveCommand: serve, attackCommand: attack, receiveCommand: receive}

func main() {
	if len(os.Args) > 1 {
		if run, ok := commands[os.Args[1]]; ok {
			exit(run(os.Args[2:]))
			return
		}
	}
	p, err := flags(os.Args[1:])
	if err != nil {
		exit(err)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(bench(ctx, p, os.Stdout, os.Stderr))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func flags(args []string) (p plan, err error) {
	set := flag.NewFlagSet("bench", flag.ExitOnError)
	var callers, rows, admin string
	set.IntVar(&p.rounds, "rounds", 5, "how often each program is measured at each number of callers")
	set.DurationVar(&p.length, "for", 2*time.Second, "for how long callers ask in each of them")
	set.StringVar(&callers, "callers", "1,64,256", "numbers of callers at once")
	set.IntVar(&p.attackers, "attackers", 256, "callers that ask for one recipient while the waits of others are measured; 0: none")
	set.DurationVar(&p.level, "level", time.Minute, "how long a fresh database without autovacuum is written to; 0: not at all")
	set.DurationVar(&p.hour, "hour", 0, "measure nothing but a database with autovacuum for so long")
	set.StringVar(&rows, "rows", "", "measure nothing but sends on databases with so many rows, by commas")
	set.StringVar(&admin, "admin", "", "measure nothing but what an administrator waits for on databases with so many rows, by commas")
	set.BoolVar(&p.takes, "takes", false, "measure nothing but takes of a limit beside bare HTTP")
	set.BoolVar(&p.profile, "profile", true, "also say where the service's processor time goes")
	set.BoolVar(&p.limiter, "limiter", true, "also run the benchmark of the limiter")
	set.StringVar(&p.write, "write", "", "the document to write")
	if err := set.Parse(args); err != nil {
		return p, err
	}
	if p.rounds < 1 {
		return p, errors.New("rounds: at least 1")
	}
	if p.callers, err = numbers(callers); err == nil {
		p.rows, err = numbers(rows)
	}
	if err == nil {
		p.admin, err = numbers(admin)
	}
	return p, err
}

func numbers(list string) (all []int, err error) {
	if list == "" {
		return nil, nil
	}
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no list of numbers", list)
		}
		all = append(all, n)
	}
	return all, nil
}

// bench measures, then writes and prints the document.
func bench(ctx context.Context, p plan, out, progress io.Writer) (err error) {
	b, err := openRig(ctx, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	r, err := b.run(ctx, p)
	if err != nil {
		return err
	}
	return publish(p.write, r, out)
}

// publish prints what was measured; the file also keeps what was not measured this time.
func publish(file string, r report.Results, out io.Writer) error {
	fmt.Fprint(out, r.Document(""))
	if file == "" {
		return nil
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(file, []byte(r.Document(string(old))), 0o644)
}
