// Command bench measures a whole send over HTTP against tools/floor, which does the least that any sending of a code
// must do. Both run as processes of their own on one Redis, one Postgres that waits for its disk, and one mail server
// that counts; rounds alternate, so that whatever else the machine does meets both. It says the ratio with its
// spread, how long one caller waits for the 202, and where the service's time goes. Then it measures what an attack on one
// recipient does to the waits of all others.
//
//	go run ./tools/bench [-rounds 5] [-for 2s] [-callers 1,64,256] [-attackers 64] [-profile]
//
// A send counts when its mail has been accepted: the clock of a run stops when the last one has arrived.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type plan struct {
	rounds    int
	length    time.Duration
	callers   []int
	attackers int
	profile   bool
}

// commands are what this program is as a child of its own.
var commands = map[string]func(args []string) error{serveCommand: serve, attackCommand: attack}

func main() {
	if len(os.Args) > 1 {
		if run, ok := commands[os.Args[1]]; ok {
			exit(run(os.Args[2:]))
			return
		}
	}
	var p plan
	var callers string
	flag.IntVar(&p.rounds, "rounds", 5, "how often each program is measured at each number of callers")
	flag.DurationVar(&p.length, "for", 2*time.Second, "for how long callers ask in each of them")
	flag.StringVar(&callers, "callers", "1,64,256", "numbers of callers at once")
	flag.IntVar(&p.attackers, "attackers", 64, "callers who ask for one and the same recipient while others' waits are measured")
	flag.BoolVar(&p.profile, "profile", true, "also say where the service's processor time goes")
	flag.Parse()
	for _, text := range strings.Split(callers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			exit(fmt.Errorf("callers: %q", text))
			return
		}
		p.callers = append(p.callers, n)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(bench(ctx, p, os.Stdout))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// contender is a program that is measured.
type contender struct {
	name    string
	base    string // host:port
	process *child
}

func bench(ctx context.Context, p plan, out io.Writer) (err error) {
	b, err := openBench(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	floor, err := b.startFloor(ctx)
	if err != nil {
		return err
	}
	service, err := b.startService(ctx, "")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d processors, Postgres waits for its disk (fsync=%s), Redis appends every second; %d rounds of %v\n\n",
		runtime.NumCPU(), b.fsync, p.rounds, p.length)
	table := newTable(p.callers)
	for round := range p.rounds + 1 { // the first one warms both up, and is not told
		for _, callers := range p.callers {
			pair := []contender{floor, service}
			if round%2 == 1 {
				pair[0], pair[1] = pair[1], pair[0]
			}
			for _, c := range pair {
				result, err := b.measure(ctx, c, callers, p.length)
				if err != nil {
					return fmt.Errorf("%s, %d callers: %w", c.name, callers, err)
				}
				if round > 0 {
					table.add(c.name, callers, result)
				}
			}
		}
	}
	table.print(out)
	if p.attackers > 0 {
		if err := b.isolate(ctx, out, service, p); err != nil {
			return fmt.Errorf("isolation: %w", err)
		}
	}
	if p.profile {
		return b.explain(ctx, out, p)
	}
	return nil
}
