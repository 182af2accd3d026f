// Command bench measures whole sends over HTTP, until the mail has arrived, against the floors of tools/floor, and writes
// docs/PERFORMANCE.md. All programs run as processes of their own on one Redis, one Postgres on a disk that it waits for, and one
// mail server; they take turns, so that whatever else the machine does meets all of them.
//
//	go run ./tools/bench [-rounds 5] [-for 2s] [-write docs/PERFORMANCE.md]
//	go run ./tools/bench -rows 1000000,10000000 [-write docs/PERFORMANCE.md]
//	go run ./tools/bench -admin 1000000,10000000 [-write docs/PERFORMANCE.md]
//	go run ./tools/bench -hour 1h [-write docs/PERFORMANCE.md]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// plan is what is asked for. A length or number of 0 leaves its part out.
type plan struct {
	rounds    int
	length    time.Duration
	callers   []int
	attackers int
	level     time.Duration // autovacuum off
	limiter   bool
	hour      time.Duration // autovacuum on; a run of its own
	rows      []int         // a run of its own
	admin     []int         // a run of its own
	write     string        // file
}

// commands are what this program is as a child of its own.
var commands = map[string]func(args []string) error{serveCommand: serve, attackCommand: attack}

func main() {
	if len(os.Args) > 1 && commands[os.Args[1]] != nil {
		exit(commands[os.Args[1]](os.Args[2:]))
	}
	p := plan{callers: []int{1, 64, 256}, attackers: 256, level: time.Minute, limiter: true}
	list := func(into *[]int) func(string) error {
		return func(text string) error { return json.Unmarshal([]byte("["+text+"]"), into) }
	}
	flag.IntVar(&p.rounds, "rounds", 5, "how often each program is measured at each number of callers")
	flag.DurationVar(&p.length, "for", 2*time.Second, "for how long callers ask in each of them")
	flag.DurationVar(&p.hour, "hour", 0, "measure nothing but a database with autovacuum for so long")
	flag.Func("rows", "measure nothing but sends on databases with so many rows, by commas", list(&p.rows))
	flag.Func("admin", "measure nothing but what an administrator waits for on databases with so many rows, by commas", list(&p.admin))
	flag.StringVar(&p.write, "write", "", "the document to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, p, os.Stdout, os.Stderr)
	stop()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// bench measures, then writes and prints the document; the file also keeps what was not measured this time.
func bench(ctx context.Context, p plan, out, progress io.Writer) (err error) {
	b, err := openRig(ctx, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	texts, err := b.run(ctx, p)
	if err != nil {
		return err
	}
	when := time.Now().UTC().Format(time.DateOnly) + " at commit " + commit(ctx)
	preface, err := b.preface(ctx, p, when)
	if err != nil {
		return err
	}
	fmt.Fprint(out, document("", preface, when, texts))
	if p.write == "" {
		return nil
	}
	old, err := os.ReadFile(p.write)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(p.write, []byte(document(string(old), preface, when, texts)), 0o644)
}

// run measures what the plan asks for, and returns sections of the document by title.
func (b *rig) run(ctx context.Context, p plan) (map[string]string, error) {
	whole := len(p.rows) == 0 && len(p.admin) == 0 && p.hour == 0
	texts := map[string]string{}
	for _, s := range []struct {
		title   string
		wanted  bool
		measure func(context.Context, plan) (text string, err error)
	}{
		{titleRows, len(p.rows) > 0, b.measureRows},
		{titleAdmin, len(p.admin) > 0, b.measureAdmin},
		{titleHour, p.hour > 0, b.measureHour},
		{"Sends", whole, b.measureSends},
		{"What a send costs", whole, b.measureCosts},
		{"At half the highest rate", whole, b.measureHalf},
		{"Other requests", whole, b.measureOthers},
		{titleTakes, whole, b.measureTakes},
		{"One recipient attacked", whole && p.attackers > 0, b.measureAttack},
		{"Memory and start", whole, b.measureMemory},
		{"What 10 and 100 million sends a day need", whole, b.measureNeeds},
		{"A minute on a fresh database", whole && p.level > 0, b.measureLevel},
		{"The limiter alone", whole && p.limiter, b.measureLimiter},
		{"Where the program's processor time goes", whole, b.explain},
	} {
		if !s.wanted {
			continue
		}
		began := time.Now()
		text, err := s.measure(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.title, err)
		}
		texts[s.title] = text
		fmt.Fprintf(b.progress, "%s: %.0f s\n", s.title, time.Since(began).Seconds())
	}
	if whole {
		texts["Goals"] = b.goals.String()
	}
	return texts, nil
}
