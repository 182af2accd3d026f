// Package policies has the console's page of the rules in force: what they are, which recipients are at their limits, and a trial that
// replays past sends against others.
package policies

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/console/explain"
	"sendcode/internal/console/layout"
	"sendcode/internal/store"
	"sendcode/internal/support"
	"sendcode/internal/texts"
	"sendcode/quota"
)

// Desk returns the rules in force and the recipients at their limits, and replays sends against other rules. Implementation:
// *support.Desk.
type Desk interface {
	Policies() []support.Policy
	AtLimit(ctx context.Context, p support.Policy, rule quota.Rule, most int) ([]store.HeavyRecipient, int, error)
	Replay(ctx context.Context, p support.Policy, rules []quota.Rule, period time.Duration) (support.Replayed, error)
}

// Pages is the page. Safe for concurrent use.
type Pages struct {
	desk    Desk
	layout  *layout.Layout
	replays chan struct{} // bounds the replays at once
}

// New makes the page.
func New(desk Desk, l *layout.Layout) *Pages {
	return &Pages{desk: desk, layout: l, replays: make(chan struct{}, 1)}
}

// atLimitShown is how many recipients are shown at one rule's limit.
const atLimitShown = 10

type policiesView struct {
	layout.Page
	Policies []policyView
}

type policyView struct {
	Name, Purposes string
	Rules          []ruleView
	Trial          trialView
}

type ruleView struct {
	Name, Scope, Limit, Per string
	Observed                bool
	AtLimit                 string // how many recipients; empty: not known for this scope
	Who                     []whoView
	More                    string // how many of them are not shown
}

type whoView struct {
	To, App, Channel, Sends, Link string
	Newest                        texts.Clock
}

// trialView is the form that asks what other rules would have done, and its answer.
type trialView struct {
	Rules   []trialRule
	Last    []layout.Option
	Result  texts.Sentence
	ByRule  string
	Problem string
}

type trialRule struct {
	Name, Limit, Window string
	Calendar            string // its period, in words; its window cannot be changed
}

// Show is the page's handler.
func (a *Pages) Show(c echo.Context) error {
	asked, err := a.trialAsked(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	w := layout.Words(c)
	v := policiesView{Page: layout.NewPage(c, "policies.title", "policies")}
	status := http.StatusOK
	for _, p := range a.desk.Policies() {
		shown := policyView{Name: p.Name, Purposes: strings.Join(p.Purposes, w.Get("list.comma"))}
		if shown.Rules, err = a.rulesOf(c.Request().Context(), p, w); err != nil {
			return err
		}
		values := url.Values{}
		if asked.Get("policy") == p.Name {
			values = asked
		}
		shown.Trial = trialOf(p, values, w)
		if len(values) > 0 {
			status = a.try(c.Request().Context(), p, values, w, &shown.Trial)
		}
		v.Policies = append(v.Policies, shown)
	}
	return a.layout.Show(c, status, "policies", v)
}

func (a *Pages) rulesOf(ctx context.Context, p support.Policy, w texts.Words) (rules []ruleView, err error) {
	for _, r := range p.Rules {
		v := ruleView{
			Name: r.Name, Scope: scopeWords(r.Scope, w), Limit: strconv.Itoa(r.Limit), Per: perWords(r, w), Observed: r.Observe,
		}
		if r.Scope == quota.Recipient {
			crowds, all, err := a.desk.AtLimit(ctx, p, r, atLimitShown)
			if err != nil {
				return nil, err
			}
			v.AtLimit = w.Plural("policies.people", all)
			for _, c := range crowds {
				v.Who = append(v.Who, whoView{
					To: c.To, App: c.App, Channel: w.Or("channel", string(c.Channel)), Sends: w.Plural("policies.sends", c.Sends),
					Newest: w.Clock(c.Newest), Link: explain.RecipientAddress(c.Recipient),
				})
			}
			if all > len(crowds) {
				v.More = w.Get("policies.more", "n", strconv.Itoa(all-len(crowds)))
			}
		}
		rules = append(rules, v)
	}
	return rules, nil
}

// scopeWords says whose events a rule counts.
func scopeWords(s quota.Scope, w texts.Words) string {
	words := w.Or("scope", string(s.Base()))
	if s.Browsers() {
		words = w.Get("policies.browsers", "scope", words)
	}
	return words
}

// perWords says for how long a rule counts: "1 h", "calendar day, Asia/Shanghai".
func perWords(r quota.Rule, w texts.Words) string {
	switch {
	case r.Calendar():
	case r.Window%time.Hour == 0 && r.Window < 72*time.Hour: // as the form has it: 24 h, not 1 d
		return strconv.Itoa(int(r.Window/time.Hour)) + " " + w.Get("unit.h")
	default:
		return w.Wait(r.Window)
	}
	zone := "UTC"
	if r.Zone != nil {
		zone = r.Zone.String()
	}
	if r.Days > 1 {
		return w.Get("policies.per.days", "n", strconv.Itoa(r.Days), "zone", zone)
	}
	return w.Get("policies.per."+string(cmp.Or(r.Per, quota.Day)), "zone", zone)
}
