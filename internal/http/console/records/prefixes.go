package records

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
)

// prefixesPath is the path of the page of paused number prefixes. A prefix gets no text messages
// for a while if hardly any of its codes were entered.
const prefixesPath = "/admin/prefixes"

// prefixPauseList returns the list of present and past pauses.
func (handlers *Handlers) prefixPauseList() layout.List[store.PrefixPauseFilter, store.PrefixPause] {
	return layout.List[store.PrefixPauseFilter, store.PrefixPause]{
		Name: "prefixes", Path: prefixesPath, JSON: prefixPauseJSON, Read: handlers.Store.PrefixPauses,
		Parameters: func(f *store.PrefixPauseFilter) layout.Parameters {
			return layout.Parameters{"state": layout.ActiveOnlyParameter(&f.Active)}
		},
		Paging: func(f *store.PrefixPauseFilter) layout.PagingFields {
			return layout.PagingFields{Limit: &f.Limit, Before: &f.Before}
		},
		Cursor: func(p store.PrefixPause) store.Cursor { return store.Cursor{At: p.Since, ID: p.ID} },
	}
}

func prefixPauseJSON(p store.PrefixPause, now time.Time) layout.JSONObject {
	o := layout.JSONObject{
		"id": p.ID, "app": p.App, "country": p.Country, "prefix": p.Prefix, "class": p.Class.Name(),
		"since": layout.Timestamp(p.Since),
		"until": layout.Timestamp(p.Until), "sends": p.Sends, "approved": p.Approved, "usual_percent": nil,
		"active":    p.Active(now),
		"lifted_at": layout.Timestamp(p.LiftedAt), "lifted_by": layout.OrNull(p.LiftedBy),
		"lifted_reason": layout.OrNull(p.LiftedWhy),
	}
	if p.UsualPercent >= 0 {
		o["usual_percent"] = p.UsualPercent
	}
	return o
}

// prefixesView is the data of the template prefixes.html.
type prefixesView struct {
	layout.Page
	layout.PaginatedRows[store.PrefixPauseFilter, store.PrefixPause]
	MayLift bool // the reader may end pauses
	Outcome explain.ActOutcome
	Problem string
	Typed   url.Values // the fields of the form that was refused
}

func (handlers *Handlers) prefixesPage(c echo.Context) error {
	return handlers.showPrefixes(c, http.StatusOK, c.Request().URL.RawQuery, nil, "")
}

func (handlers *Handlers) showPrefixes(c echo.Context, status int, raw string, typed url.Values, problem string) error {
	p, err := handlers.prefixPauseList().PageOrMistake(c, withoutDone(raw), store.PrefixPauseFilter{Active: true})
	if err != nil {
		return err
	}
	may := auth.ActorOf(c).May(auth.ActionLiftPrefixPause)
	v := prefixesView{Page: layout.NewPage(c, "prefixes.title", "prefixes"), PaginatedRows: p, MayLift: may, Problem: problem, Typed: typed}
	if problem == "" {
		v.Outcome = prefixOutcome(c.QueryParam(doneParameter), p.Rows, p.Now, v.W)
	}
	return handlers.Layout.Show(c, p.Mistake.StatusOr(status), "prefixes", v)
}

// prefixOutcome describes whether the numbers of a pause that was lifted get text messages now. id
// is the ID of the pause. rows are the pauses on the page, the newest first.
func prefixOutcome(id string, rows []store.PrefixPause, now time.Time, w texts.Words) explain.ActOutcome {
	i := slices.IndexFunc(rows, func(p store.PrefixPause) bool { return p.ID.String() == id })
	if i < 0 {
		return explain.ActOutcome{}
	}
	p := rows[i]
	also := slices.IndexFunc(rows, func(other store.PrefixPause) bool {
		return other.Active(now) && other.App == p.App && other.Prefix == p.Prefix
	})
	key, tone, class := "lifted", explain.Good, p.Class
	switch {
	case also >= 0:
		key, tone, class = "lifted.not", explain.Warn, rows[also].Class
	case p.LiftedAt.IsZero():
		key, tone = "ended", explain.Warn
	}
	return explain.ActOutcome{Tone: tone, Text: w.Sentence("prefixes.done."+key, texts.Strong("prefix", p.Prefix),
		texts.Plain("class", w.Get("prefixes.class."+class.Name())), texts.AtTime("until", p.Until))}
}

// ReasonText returns the numbers that led to a pause.
func (v prefixesView) ReasonText(p store.PrefixPause) string { return explain.PauseCountsText(p, v.W) }

// CallerClassText returns for which callers a prefix is paused.
func (v prefixesView) CallerClassText(p store.PrefixPause) string {
	return v.W.Get("prefixes.class." + p.Class.Name())
}

// State returns the label of a pause: active, lifted or ended.
func (v prefixesView) State(p store.PrefixPause) explain.StateLabel {
	return suppressionOrPauseLabel(p.Active(v.Now), !p.LiftedAt.IsZero(), "prefixes.holds", v.W)
}

// LiftedText returns a sentence about who lifted a pause, when and why; nil if it was not lifted.
func (v prefixesView) LiftedText(p store.PrefixPause) texts.Sentence {
	return liftedSentence(p.LiftedAt, p.LiftedBy, p.LiftedWhy, v.W)
}

// liftPrefix ends a pause and writes the audit entry in the same call of the store.
func (handlers *Handlers) liftPrefix(c echo.Context, id, reason string) (store.PrefixPause, error) {
	pause, err := uuid.Parse(id)
	if err != nil {
		return store.PrefixPause{}, fault.Invalid("id", "invalid", "This is no ID of a pause.")
	}
	act, err := handlers.Auth.NewAuditEntry(c, auth.ActionLiftPrefixPause)
	if err != nil {
		return store.PrefixPause{}, err
	}
	return handlers.Administration.LiftPrefixPause(c.Request().Context(), pause, strings.TrimSpace(reason), act)
}

func (handlers *Handlers) liftPrefixJSON(c echo.Context) error {
	var w struct {
		ID     string `json:"id"`
		Reason string `json:"reason"`
	}
	if err := server.ReadJSON(c, &w); err != nil {
		return err
	}
	p, err := handlers.liftPrefix(c, w.ID, w.Reason)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, prefixPauseJSON(p, handlers.Now()))
}

func (handlers *Handlers) liftPrefixForm(c echo.Context, form url.Values) error {
	_, err := handlers.liftPrefix(c, form.Get("id"), form.Get("reason"))
	if bad, ok := errors.AsType[*fault.InvalidError](err); ok {
		return handlers.showPrefixes(c, http.StatusUnprocessableEntity, c.Request().URL.RawQuery, form,
			actionProblemText(layout.Words(c), "prefixes", bad, support.MaxReasonLength))
	}
	if err != nil {
		return err
	}
	to := url.Values{"state": {"all"}, doneParameter: {form.Get("id")}}
	return c.Redirect(http.StatusSeeOther, prefixesPath+"?"+to.Encode())
}
