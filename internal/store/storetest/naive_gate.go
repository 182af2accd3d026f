package storetest

import (
	"slices"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

// naiveGate is the second gate as one would say it: a list, loops and subtraction. It forgets nothing, and shares no
// line with the gates that it is compared with.
type naiveGate struct{ sends []naiveSend }

type naiveSend struct {
	intent   store.Intent
	logged   time.Time
	refunded bool
}

// oneSecond is how much a limiter's clock is believed to be ahead.
const oneSecond = time.Second

// elapsed is the time that has passed since a send: what the limiter's clock says, unless the log's says that less has
// passed by more than a second. Sends of another clock are known by the log's alone.
func (s naiveSend) elapsed(in store.Intent, now time.Time) time.Duration {
	byLog := now.Sub(s.logged)
	if in.Send.Clock != s.intent.Send.Clock || in.Send.Clock == store.LogClock {
		return byLog
	}
	byLimiter := in.Send.TakenAt.Sub(s.intent.Send.TakenAt)
	if byLimiter-byLog > oneSecond {
		return byLog + oneSecond
	}
	return byLimiter
}

// hourInIndia is the calendar rule of the schedules: the clock hour, half an hour off that of UTC.
func hourInIndia(limit int) quota.Rule {
	return quota.Rule{Name: "hourly", Scope: quota.Recipient, Limit: limit, Per: quota.Hour, Zone: time.FixedZone("India", 19800)}
}

// at is the limiter's time, where it is not more than a second ahead of the log's.
func (g *naiveGate) at(in store.Intent, now time.Time) time.Time {
	switch {
	case in.Send.Clock == store.LogClock:
		return now
	case in.Send.TakenAt.Sub(now) > oneSecond:
		return now.Add(oneSecond)
	}
	return in.Send.TakenAt
}

// decide says of each rule how many sends it counts, and for how long there is no place.
func (g *naiveGate) decide(in store.Intent, now time.Time) (room bool, states []quota.State) {
	longest := time.Duration(0)
	for _, r := range in.Rules {
		longest = max(longest, r.Keep())
	}
	at := g.at(in, now)
	intoHour := at.Add(30*time.Minute).UnixMicro() % time.Hour.Microseconds()
	room = true
	for _, r := range in.Rules {
		window := r.Window
		if r.Per != "" {
			window = time.Duration(intoHour+1) * time.Microsecond
		}
		var ages []time.Duration
		for _, s := range g.sends {
			age := s.elapsed(in, now)
			if !s.refunded && s.intent.Send.Recipient == in.Send.Recipient && age < window && now.Sub(s.logged) < longest+24*time.Hour {
				ages = append(ages, max(0, age))
			}
		}
		slices.Sort(ages)
		state := quota.State{Rule: r, Used: len(ages)}
		if state.Used > 0 {
			state.ResetAfter = r.Window - ages[len(ages)-1]
		}
		if state.Used >= r.Limit {
			room, state.RetryAfter = false, r.Window-ages[r.Limit-1]
		}
		if r.Per != "" {
			state.Window = time.Hour
			left := time.Hour - time.Duration(intoHour)*time.Microsecond
			if state.Used > 0 {
				state.ResetAfter = left
			}
			if state.Used >= r.Limit {
				state.RetryAfter = left
			}
		}
		states = append(states, state)
	}
	return room, states
}

func (g *naiveGate) add(in store.Intent, now time.Time) {
	g.sends = append(g.sends, naiveSend{intent: in, logged: now})
}
