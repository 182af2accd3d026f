package records

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
	"sendcode/quota"
)

// PolicyReader returns the rules in force and the recipients at a rule's limit: the first few, and
// the number of all. Implementation: *support.Administration.
type PolicyReader interface {
	Policies() []support.PolicyWithPurposes
	RecipientsAtLimit(ctx context.Context, p support.PolicyWithPurposes, rule quota.Rule, most int) ([]store.FrequentRecipient,
		int, error)
}

// PoliciesPage is the console's page of the rules in force. Safe for concurrent use.
type PoliciesPage struct {
	policies PolicyReader
	layout   *layout.Layout
}

// NewPoliciesPage makes the page.
func NewPoliciesPage(policies PolicyReader, l *layout.Layout) *PoliciesPage {
	return &PoliciesPage{policies: policies, layout: l}
}

// maxAtLimitShown is how many recipients are shown at one rule's limit.
const maxAtLimitShown = 10

type policiesView struct {
	layout.Page
	Policies []policyView
}

type policyView struct {
	support.PolicyWithPurposes
	Rules []ruleView
}

// ruleView is a rule and, if its scope is the recipient, the recipients at its limit.
type ruleView struct {
	quota.Rule
	Recipients []store.FrequentRecipient
	AtLimit    string // how many recipients; empty: not known for this scope
	More       int    // how many of them are not shown
}

// Show is the console's page of the rules in force.
func (pp *PoliciesPage) Show(c echo.Context) error {
	v := policiesView{Page: layout.NewPage(c, "policies.title", "policies")}
	for _, p := range pp.policies.Policies() {
		rules, err := pp.ruleViews(c.Request().Context(), p, v.W)
		if err != nil {
			return err
		}
		v.Policies = append(v.Policies, policyView{p, rules})
	}
	return pp.layout.Show(c, http.StatusOK, "policies", v)
}

func (pp *PoliciesPage) ruleViews(ctx context.Context, p support.PolicyWithPurposes, w texts.Words) (rules []ruleView, err error) {
	for _, r := range p.Rules {
		v := ruleView{Rule: r}
		if r.Scope == quota.Recipient {
			var all int
			if v.Recipients, all, err = pp.policies.RecipientsAtLimit(ctx, p, r, maxAtLimitShown); err != nil {
				return nil, err
			}
			v.AtLimit, v.More = w.Plural("policies.people", all), all-len(v.Recipients)
		}
		rules = append(rules, v)
	}
	return rules, nil
}

// PurposesText returns the purposes that share a policy, in words.
func (v policiesView) PurposesText(p policyView) string {
	return strings.Join(p.Purposes, v.W.Get("list.comma"))
}

// ScopeText returns in words whose events a rule counts.
func (v policiesView) ScopeText(s quota.Scope) string { return v.W.Or("scope", string(s)) }

// LimitText returns a rule's limit and, if the rule has a reserve, the limit for strangers. Known
// browsers are strangers only to rules wider than a recipient, so the texts differ.
func (v policiesView) LimitText(p policyView, r quota.Rule) string {
	if n := p.Reserve[r.Name]; n > 0 {
		key := "policies.reserve.wide"
		if r.Scope == quota.Recipient {
			key = "policies.reserve"
		}
		return v.W.Get(key, "limit", strconv.Itoa(r.Limit), "strangers", strconv.Itoa(r.Limit-n))
	}
	return strconv.Itoa(r.Limit)
}

// PeriodText returns the time over which a rule counts, in words: "1 h", "calendar day,
// Asia/Shanghai".
func (v policiesView) PeriodText(r quota.Rule) string {
	switch {
	case r.Calendar():
	case r.Window%time.Hour == 0 && r.Window < 72*time.Hour: // as the settings have it: 24 h, not 1 d
		return strconv.Itoa(int(r.Window/time.Hour)) + " " + v.W.Get("unit.h")
	default:
		return v.W.Wait(r.Window)
	}
	zone := "UTC"
	if r.Zone != nil {
		zone = r.Zone.String()
	}
	if r.Days > 1 {
		return v.W.Get("policies.per.days", "n", strconv.Itoa(r.Days), "zone", zone)
	}
	return v.W.Get("policies.per."+string(cmp.Or(r.Per, quota.Day)), "zone", zone)
}
