package records

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/codes/policy"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
	"sendcode/quota"
)

type policiesView struct {
	layout.Page
	Policies          []support.PolicyWithPurposes
	OnSends, OnChecks []policy.RuleInForce // built-in rules
	Others            []otherStop
	stops             []store.StopCount // what was stopped in the last countedTime
	known             bool              // false: stops could not be read
}

// countedTime is how far back the page counts how often each rule refused.
const countedTime = 7 * 24 * time.Hour

// otherStop describes a stop of sends that is not a rule of a policy.
type otherStop struct {
	Name, What string
	Link       string // address of the stopped rows, or of the list of these stops; empty: none
	Count      string
}

// policiesPage is the console's page of the rules in force, and of everything else that can refuse
// a person's request. If the counts can't be read, only the counts are missing.
func (handlers *Handlers) policiesPage(c echo.Context) error {
	v := policiesView{Page: layout.NewPage(c, "policies.title", "policies"), Policies: handlers.Administration.Policies()}
	set := handlers.Administration.Policy.Get()
	v.OnSends, v.OnChecks = set.BuiltInRules()
	now := handlers.Now()
	stops, err := handlers.Store.StopCounts(c.Request().Context(), now.Add(-countedTime), now)
	if err != nil {
		server.LogFailure(c.Request().Context(), handlers.Logger, err)
	}
	v.stops, v.known = stops, err == nil
	v.Others = v.otherStops(set)
	return handlers.Layout.Show(c, http.StatusOK, "policies", v)
}

// otherStops returns the stops that are not rules, in the order in which they are applied to a
// request.
func (v policiesView) otherStops(set policy.Set) (all []otherStop) {
	refused := func(name string) func(store.StopCount) bool {
		return func(s store.StopCount) bool { return s.BlockedBy == name }
	}
	failed := func(reasons ...string) func(store.StopCount) bool {
		return func(s store.StopCount) bool { return s.BlockedBy == "" && slices.Contains(reasons, s.Reason) }
	}
	add := func(key, link string, counted func(store.StopCount) bool, values ...string) {
		o := otherStop{Name: v.W.Get("policies.other." + key), What: v.W.Get("policies.other."+key+".what", values...), Link: link, Count: "–"}
		if counted != nil {
			o.Count = v.countText(counted)
		}
		all = append(all, o)
	}
	list := func(parameter, value string) string {
		return "/admin?" + url.Values{parameter: {value}, "last": {"7d"}}.Encode()
	}
	add("overload", "", nil)
	countries := v.W.Get("policies.everywhere")
	if !set.Numbers.Everywhere {
		countries = cmp.Or(v.ListText(set.Numbers.Countries), "–")
	}
	for _, reason := range []string{policy.ReasonCountryNotServed, policy.ReasonVoIP, policy.ReasonDisposable} {
		if reason == policy.ReasonVoIP && !set.Numbers.RefuseVoIP || reason == policy.ReasonDisposable && len(set.Blocks.Disposable) == 0 {
			continue
		}
		add(reason, list("blocked_by", reason), refused(reason), "countries", countries)
	}
	add("human", "", nil)
	add(policy.CarrierName, list("blocked_by", policy.CarrierName), func(s store.StopCount) bool {
		return refused(policy.CarrierName)(s) || failed(store.ReasonCarrierLimit)(s)
	})
	add(store.ReasonBlocked, list("status", "failed"), failed(store.ReasonBlocked),
		"n", strconv.Itoa(len(set.Blocks.Recipients)+len(set.Blocks.Domains)+len(set.Blocks.Prefixes)))
	add(store.ReasonSuppressed, "/admin/suppressions", failed(store.ReasonSuppressed))
	add(store.ReasonPaused, "/admin/prefixes", failed(store.ReasonPaused), "pauses", v.pausesText(set.Pauses))
	add("spend_cap", list("status", "failed"), failed("spend_cap"))
	return all
}

// pausesText returns the pauses of the settings, in words.
func (v policiesView) pausesText(pauses []policy.Pause) string {
	var texts []string
	for _, p := range pauses {
		texts = append(texts, strings.TrimSpace(strings.Join([]string{v.W.Or("channel", string(p.Channel)), p.Purpose}, " ")))
	}
	return cmp.Or(v.ListText(texts), "–")
}

// countText returns how many requests were stopped; a dash if that is not known.
func (v policiesView) countText(counted func(store.StopCount) bool) string {
	if !v.known {
		return "–"
	}
	n := 0
	for _, s := range v.stops {
		if counted(s) {
			n += s.Requests
		}
	}
	return strconv.Itoa(n)
}

// rulesTable is a table of rules with columns for their limits.
type rulesTable struct {
	policiesView
	Rules    []policy.RuleInForce
	Limits   []limitColumn
	checks   bool     // the rules are on checks
	Purposes []string // the purposes whose refusals are counted; nil: all purposes whose policy has no rule of this name
}

// Refusals returns how many requests a rule refused in the countedTime, with the address of the
// list of these requests. Checks have no rows, so a rule on checks has a number only if it also
// refuses sends.
func (t rulesTable) Refusals(r policy.RuleInForce) otherStop {
	count := t.countText(func(s store.StopCount) bool {
		if s.BlockedBy != r.Name {
			return false
		}
		if t.Purposes != nil {
			return slices.Contains(t.Purposes, s.Purpose)
		}
		return !t.inPolicyOf(s.Purpose, r.Name)
	})
	if t.checks && r.Name != policy.LockoutName {
		count = "–"
	}
	return otherStop{Count: count, Link: "/admin?" + url.Values{"blocked_by": {r.Name}, "last": {"7d"}}.Encode()}
}

// inPolicyOf reports whether the policy of a purpose has a rule of this name.
func (v policiesView) inPolicyOf(purpose, rule string) bool {
	named := func(r policy.RuleInForce) bool { return r.Name == rule }
	return slices.ContainsFunc(v.Policies, func(p support.PolicyWithPurposes) bool {
		return slices.Contains(p.Purposes, purpose) && slices.ContainsFunc(p.Rules, named)
	})
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

// TableOf returns a table of a policy's rules, with the limits for each class.
func (v policiesView) TableOf(p support.PolicyWithPurposes) rulesTable {
	t := v.Table(p.Rules)
	t.Purposes = p.Purposes
	return t
}

// Table returns a table with the limits for each class.
func (v policiesView) Table(rules []policy.RuleInForce) rulesTable {
	t := rulesTable{policiesView: v, Rules: rules}
	for _, class := range store.Classes {
		t.Limits = append(t.Limits, limitColumn{v.W.Get("policies.limit." + class.Name()), class})
	}
	return t
}

// TableForAll returns a table of rules on checks, whose limits are equal for all classes.
func (v policiesView) TableForAll(rules []policy.RuleInForce) rulesTable {
	return rulesTable{policiesView: v, Rules: rules, Limits: []limitColumn{{Head: v.W.Get("policies.limit")}}, checks: true}
}

// ListText joins names of purposes, apps or policies by the comma of the reader's language.
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
