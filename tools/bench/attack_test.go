//go:build nightly

package bench

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// honestRate is how many requests a second, each for another recipient, go on whether there is an
// attack or not.
const honestRate = 100

// measureAttack measures how long honest requests wait, by turns with and without callers that ask
// for one recipient as often as they are answered. The attackers are a process of their own, on one
// processor.
func (b *rig) measureAttack() string {
	service, refusals, rates := b.contender(ours), 0, []float64{}
	honest := func() run {
		samples, refused := b.paced(service, honestRate, b.length)
		refusals += refused // of every round, also of the one that warms up: none may be refused
		return b.arrivals(samples, false)
	}
	quiet := &entry{name: "quiet", measure: honest}
	attacked := &entry{name: "attacked", measure: func() run {
		attackers := b.start("attackers", exec.Command(os.Args[0], attackCommand, service.base, strconv.Itoa(b.attackers)))
		r := honest()
		made, err := strconv.Atoi(strings.TrimSpace(b.end(attackers)))
		b.must(err)
		rates = append(rates, float64(made)/b.length.Seconds()) // the first is of the round that warms up
		return r
	}}
	b.inTurns([]*entry{quiet, attacked})
	b.goals.most("honest requests refused beside an attack", 0, float64(refusals), "")
	before, during := quiet.allAnswers(), attacked.allAnswers()
	b.goals.most("honest p99 beside an attack ÷ quiet", 1.74*air, quantile(.99, during)/quantile(.99, before), "")
	return fmt.Sprintf(
		"%d honest requests a second for different recipients, beside %d callers that request codes for one recipient without "+
			"pause (%s requests/s). %d honest requests were refused. Their 202: p50 %.2f ms quiet and %.2f ms attacked, p99 %.2f ms quiet and "+
			"%.2f ms attacked.\n", honestRate, b.attackers, number(spreadOf(rates[1:]).median), refusals,
		quantile(.5, before), quantile(.5, during), quantile(.99, before), quantile(.99, during))
}

// allAnswers are the waits for the answers of all rounds.
func (e *entry) allAnswers() (all []time.Duration) {
	for _, r := range e.runs {
		all = append(all, r.answers...)
	}
	return all
}

// attackCommand makes this program the attackers, until SIGTERM; then it prints how often they were
// answered.
const attackCommand = "attack"

func attack(args []string) error {
	runtime.GOMAXPROCS(1)
	attackers, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("http://" + args[0])
	samples, err := ask(context.Background(), contender{base: args[0]}, attackers, 24*time.Hour,
		func(c *caller) (int64, error) {
			if ctx.Err() != nil {
				return 0, errEnough
			}
			_, err := c.do(http.MethodPost, sendPath, sendBody("victim@example.com"))
			return 0, err
		})
	fmt.Println(len(samples))
	return err
}
