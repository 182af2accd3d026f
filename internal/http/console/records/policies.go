package records

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/console/layout"
	"sendcode/internal/verify/support"
	"sendcode/quota"
)

type policiesView struct {
	layout.Page
	Policies []support.PolicyWithPurposes
}

// policiesPage is the console's page of the rules in force.
func (handlers *Handlers) policiesPage(c echo.Context) error {
	v := policiesView{layout.NewPage(c, "policies.title", "policies"), handlers.Administration.Policies()}
	return handlers.Layout.Show(c, http.StatusOK, "policies", v)
}

// PurposesText returns the purposes that share a policy, in words.
func (v policiesView) PurposesText(p support.PolicyWithPurposes) string {
	return strings.Join(p.Purposes, v.W.Get("list.comma"))
}

// ScopeText returns in words whose events a rule with the scope counts.
func (v policiesView) ScopeText(s quota.Scope) string { return v.W.Or("scope", string(s)) }

// LimitText returns the limit of a rule. If the rule has a reserve, the text also has the lower
// limit for strangers. A known browser counts as a stranger only in rules with a wider scope than
// one recipient. So the text for these rules has other words than the text for a rule on
// recipients.
func (v policiesView) LimitText(p support.PolicyWithPurposes, r quota.Rule) string {
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
