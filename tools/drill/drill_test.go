package drill

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var (
	size  = flag.Int("drill.rows", 3_000, "how many ordinary sends there are")
	each  = flag.Int("drill.each", 1, "how many incidents of each kind")
	seed  = flag.Uint64("drill.seed", 0, "whom they happen to; 0: another one each time")
	limit = flag.Duration("drill.limit", 0, "how long the slowest but one in twenty may take; 0: as long as it likes")
	some  = flag.Int("drill.kinds", 10, "how many kinds to play, drawn by the seed; 0: all")
)

// The verdict is right, every time, in two actions at most.
func TestDrill(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	s := open(t, *size)
	incidents := s.happen(rand.New(rand.NewPCG(*seed, 0)))
	fmt.Printf("drill: %d ordinary sends, %d incidents, seed %d\n", *size, len(incidents), *seed)
	c := newClerk(s)
	var calls []heard
	right := 0
	for _, i := range incidents {
		if i.kind.live {
			i.kind.make(s, i)
		}
		i.speaks()
		h := c.answers(i)
		calls = append(calls, h)
		if fault := i.kind.wrong(h, i.known); fault != "" {
			t.Errorf("%s (%q): %s\n\tshown: %s", i.kind.name, i.said, fault, h.Shown)
			continue
		}
		right++
	}
	for n, h := range calls {
		for _, k := range kinds {
			if k != incidents[n].kind && k.wrong(h, incidents[n].known) == "" {
				t.Errorf("what is right for %q would be so for %q, too: %s", incidents[n].kind.name, k.name, h.Shown)
			}
		}
	}
	p95 := report(calls, right)
	if *limit > 0 && p95 > *limit {
		t.Errorf("one in twenty takes more than %v", p95)
	}
}

// happen causes the incidents, and returns them in the order of the calls.
func (s *environment) happen(r *rand.Rand) (all []*incident) {
	played := drawn(r)
	for n := range *each {
		for k, one := range played {
			i := newIncident(one, r, n*len(played)+k)
			if one.before != nil {
				one.before(s, i)
			}
			all = append(all, i)
		}
	}
	s.MailRules(s.rules...)
	s.make(all, func(k *kind) bool { return !k.live && !k.down })
	s.SMTP.Stop()
	s.make(all, func(k *kind) bool { return k.down })
	s.SMTP.Restart()
	s.back(r)
	r.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	return all
}

// drawn returns the kinds that are played.
func drawn(r *rand.Rand) []*kind {
	all := slices.Clone(kinds)
	if *some > 0 && *some < len(all) {
		r.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
		all = all[:*some]
	}
	return all
}

// back waits until mails go to the server again, which has been set aside while it was down.
func (s *environment) back(r *rand.Rand) {
	s.Helper()
	for n := range 100 {
		if a := s.request(newIncident(&kind{name: "back"}, r, 100_000+n), "order"); a.Send.Status == "sent" {
			return
		}
	}
	s.Fatal("no mail gets to the server any more")
}

// make causes the incidents of some kinds, and waits for them together.
func (s *environment) make(all []*incident, of func(*kind) bool) {
	all = slices.DeleteFunc(slices.Clone(all), func(i *incident) bool { return !of(i.kind) })
	for _, i := range all {
		i.kind.make(s, i)
	}
	for _, i := range all {
		if i.kind.settle != nil {
			i.kind.settle(s, i)
		}
		if i.kind.old {
			s.grow(i)
		}
	}
}

// grow moves some incidents into the past; the person may have got another code since.
func (s *environment) grow(i *incident) {
	if i.rand.IntN(2) == 0 {
		return
	}
	by := time.Duration(45+i.rand.IntN(30)) * time.Minute
	s.age(i, by)
	if i.ago = time.Hour; i.kind.others {
		if a := s.request(i, "order"); a.Send.Status != "sent" {
			s.Fatalf("%s, and another one since: %d %s", i.kind.name, a.StatusCode, a.Raw)
		}
	}
}

// report prints what came of it, and returns the 95th percentile of the time from the first action
// to the verdict.
func report(calls []heard, right int) (p95 time.Duration) {
	var took []time.Duration
	actions := 0
	for _, h := range calls {
		took, actions = append(took, h.took), max(actions, h.actions)
	}
	slices.Sort(took)
	p95 = took[(len(took)-1)*95/100]
	fmt.Printf(
		"%d of %d verdicts right, in %d actions at most; from the first action to the verdict: p50 %v, p95 %v, slowest %v\n", right, len(calls),
		actions, took[len(took)/2].Round(time.Millisecond), p95.Round(time.Millisecond),
		took[len(took)-1].Round(time.Millisecond))
	return p95
}
