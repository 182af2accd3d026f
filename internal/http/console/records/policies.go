package records

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/codes/policy"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
	"sendcode/quota"
)

type policiesView struct {
	layout.Page
	Policies          []support.PolicyWithPurposes
	OnSends, OnChecks []policy.RuleInForce // built-in rules
}

// policiesPage is the console's page of the rules in force.
func (handlers *Handlers) policiesPage(c echo.Context) error {
	v := policiesView{Page: layout.NewPage(c, "policies.title", "policies"), Policies: handlers.Administration.Policies()}
	v.OnSends, v.OnChecks = handlers.Administration.Policy.Get().BuiltInRules()
	return handlers.Layout.Show(c, http.StatusOK, "policies", v)
}

// rulesTable is a table of rules with columns for their limits.
type rulesTable struct {
	policiesView
	Rules  []policy.RuleInForce
	Limits []limitColumn
}

// limitColumn has the limits of a class of callers.
type limitColumn struct {
	Head  string
	class store.Class
}

// Of returns the rule's limit for the class; a dash if the rule does not apply to the class.
func (column limitColumn) Of(r policy.RuleInForce) string {
	if limit, applies := r.Limits[column.class]; applies {
		return strconv.Itoa(limit)
	}
	return "–"
}

// Table returns a table with the limits for each class.
func (v policiesView) Table(rules []policy.RuleInForce) rulesTable {
	t := rulesTable{policiesView: v, Rules: rules}
	for _, class := range store.Classes {
		t.Limits = append(t.Limits, limitColumn{v.W.Get("policies.limit." + class.Name()), class})
	}
	return t
}

// TableForAll returns a table of rules whose limits are equal for all classes.
func (v policiesView) TableForAll(rules []policy.RuleInForce) rulesTable {
	return rulesTable{v, rules, []limitColumn{{Head: v.W.Get("policies.limit")}}}
}

// ListText returns names of purposes, apps or policies, in words.
func (v policiesView) ListText(names []string) string {
	return strings.Join(names, v.W.Get("list.comma"))
}

// ScopeText returns in words whose events a rule with the scope counts.
func (v policiesView) ScopeText(s quota.Scope) string { return v.W.Or("scope", string(s)) }

// PeriodText returns the time over which a rule counts, in words: "1 h", "calendar day,
// Asia/Shanghai".
func (v policiesView) PeriodText(r quota.Rule) string {
	switch {
	case r.Calendar():
	case r.Window%time.Hour == 0 && r.Window < 72*time.Hour: // in hours, as in the settings: 24 h, not 1 d
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
