package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/console/frame"
	"sendcode/internal/fault"
	"sendcode/internal/support"
	"sendcode/internal/texts"
	"sendcode/quota"
)

// replayTimeout is shorter than the time that a response may take.
const replayTimeout = 20 * time.Second

// Bounds of a rule that is tried: those of a rule in the configuration.
const (
	maxTrialLimit  = 1_000_000
	maxTrialWindow = 31 * 24 * time.Hour
)

// trialPeriods are the values of "last".
var trialPeriods = []string{"24h", "7d", "30d"}

// parseTrial returns the parameters of a trial; none if the query is empty. Error: an unknown
// policy or parameter.
func (a *policiesPage) parseTrial(raw string) (url.Values, error) {
	asked, err := frame.ParseValues(raw)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{"policy": true, "last": true}
	name := asked.Get("policy")
	for _, p := range a.desk.Policies() {
		if p.Name == name {
			for _, r := range triableRules(p) {
				known["limit."+r.Name], known["window."+r.Name] = true, !r.Calendar()
			}
			name = ""
		}
	}
	if name != "" {
		return nil, fault.Invalid("policy", "unknown", "There is no such policy.")
	}
	for key := range asked {
		if !known[key] {
			return nil, frame.UnknownParameterError(key)
		}
	}
	return asked, nil
}

// trialView is the form that asks what other rules would have done, and its answer.
type trialView struct {
	Rules   []trialRule
	Last    []frame.FieldOption
	Result  texts.Sentence
	ByRule  string
	Problem string
}

// trialRule is a rule with its limit and window as they were typed; the window of a calendar rule
// cannot be changed.
type trialRule struct {
	quota.Rule
	Limit, Window string
}

// newTrialView returns the form of a policy's trial, filled in with the typed values.
func newTrialView(p support.Policy, values url.Values, w texts.Words) trialView {
	chosen := values.Get("last")
	if !slices.Contains(trialPeriods, chosen) {
		chosen = "7d"
	}
	t := trialView{Last: frame.FieldOptions(w, "filter.last", "filter.last", chosen, trialPeriods...)[1:]}
	for _, r := range triableRules(p) {
		v := trialRule{Rule: r, Limit: cmp.Or(values.Get("limit."+r.Name), strconv.Itoa(r.Limit))}
		if !r.Calendar() {
			v.Window = cmp.Or(values.Get("window."+r.Name), shortDuration(r.Window))
		}
		t.Rules = append(t.Rules, v)
	}
	return t
}

// triableRules returns the rules that a trial can change: those of recipients, with mode observe
// off.
func triableRules(p support.Policy) []quota.Rule {
	rules := slices.Clone(quota.OfScope(p.Rules, quota.Recipient))
	for i := range rules {
		rules[i].Observe = false
	}
	return rules
}

// shortDuration writes a window as the configuration does: 60s, 24h.
func shortDuration(d time.Duration) string {
	if d%time.Hour == 0 {
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	if d%time.Minute == 0 && d > time.Minute {
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return strconv.Itoa(int(d/time.Second)) + "s"
}

// runTrial replays past sends through the changed rules, writes the result or the problem into t,
// and returns the page's status.
func (a *policiesPage) runTrial(ctx context.Context, p support.Policy, values url.Values, w texts.Words,
	t *trialView) (status int) {
	rules, problem := changedRules(triableRules(p), values, w)
	if problem != "" {
		t.Problem = problem
		return http.StatusUnprocessableEntity
	}
	select {
	case a.replays <- struct{}{}: // each holds much of the database in memory
		defer func() { <-a.replays }()
	default:
		t.Problem = w.Get("policies.busy")
		return http.StatusServiceUnavailable
	}
	ctx, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	last := cmp.Or(values.Get("last"), "7d")
	r, err := a.desk.ReplaySends(ctx, p, rules, frame.TimeSpans[last])
	switch {
	case errors.Is(err, support.ErrTooManySends):
		t.Problem = w.Get("policies.too_much")
		return http.StatusUnprocessableEntity
	case err != nil:
		t.Problem = w.Get("policies.unanswered")
		return http.StatusServiceUnavailable
	}
	t.Result, t.ByRule = trialSummary(r, last, w)
	return http.StatusOK
}

// changedRules returns the rules with the form's limits and windows, or the problem with the form.
func changedRules(rules []quota.Rule, values url.Values, w texts.Words) ([]quota.Rule, string) {
	if last := values.Get("last"); last != "" && !slices.Contains(trialPeriods, last) {
		return nil, w.Get("policies.bad.last")
	}
	for i := range rules {
		r := &rules[i]
		if text := values.Get("limit." + r.Name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > maxTrialLimit {
				return nil, w.Get("policies.bad.limit", "rule", r.Name)
			}
			r.Limit = n
		}
		if text := values.Get("window." + r.Name); text != "" && !r.Calendar() {
			d, err := time.ParseDuration(text)
			if err != nil || d < time.Second || d > maxTrialWindow || d%time.Second != 0 {
				return nil, w.Get("policies.bad.window", "rule", r.Name)
			}
			r.Window = d
		}
	}
	return rules, ""
}

// trialSummary returns the sentence on a trial with the sends of a period, and how many each rule
// refused.
func trialSummary(r support.ReplayResult, period string, w texts.Words) (summary texts.Sentence, refusedByRule string) {
	count := func(n int) string { return strconv.Itoa(n) }
	key := "policies.result"
	switch {
	case r.Sends == 0:
		key = "policies.result.nothing"
	case r.Refused == 0:
		key = "policies.result.none"
	}
	share := 100 * float64(r.Refused) / float64(max(1, r.Sends))
	summary = w.Sentence(key, texts.Plain("last", w.Get("filter.last."+period)), texts.Strong("sends", count(r.Sends)),
		texts.Plain("recipients", count(r.Recipients)),
		texts.Strong("refused", count(r.Refused)), texts.Plain("share", fmt.Sprintf("%.1f", share)),
		texts.Plain("affected", count(r.Affected)))
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.ByRule)) {
		parts = append(parts, name+" "+count(r.ByRule[name]))
	}
	return summary, strings.Join(parts, " · ")
}
