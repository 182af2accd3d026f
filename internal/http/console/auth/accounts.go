package auth

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/verify/support"
)

// accountsView is the data of the template accounts.html.
type accountsView struct {
	layout.Page
	Rows     []accountView
	Roles    []layout.FieldOption
	Provider string               // the provider's title; empty: there is no provider
	Typed    AccountChangeRequest // the values of a refused form
	Problem  string
	Changed  AccountChangeRequest // the change that was made
	Done     string               // describes the changed account as it is now
	Password string               // a new password, shown only this once
}

type accountView struct {
	Name   string
	Made   texts.DisplayTime
	Roles  []layout.FieldOption
	Role   string
	Closed bool

	Identity string
	Password bool // has a password
	Factor   bool // has a second factor
}

// FormRefused reports whether the form of an account's row was refused.
func (v accountsView) FormRefused(row accountView) bool {
	return v.Problem != "" && v.Typed.Do != "add" && v.Typed.Name == row.Name
}

func (a *Auth) accountsPage(c echo.Context) error {
	return a.showAccounts(c, http.StatusOK, accountsView{})
}

// showAccounts shows the accounts. If they can't be read, it fails, unless v has a new password.
// Then it shows no accounts, because the change was made, and no other page can show the password.
func (a *Auth) showAccounts(c echo.Context, status int, v accountsView) error {
	w := layout.Words(c)
	rows, err := a.accountRows(c.Request().Context(), w)
	switch {
	case err != nil && v.Password != "":
		a.logger.WarnContext(c.Request().Context(), "could not list accounts after a change", "error", err, logs.SeeDatabaseAway)
		v.Done = w.Get("accounts.done."+v.Changed.Do, "name", v.Changed.Name, "role", w.Or("role", string(v.Changed.Role)))
	case err != nil:
		return err
	}
	v.Page, v.Rows = layout.NewPage(c, "accounts.title", "accounts"), rows
	v.Roles = roleOptions(w, cmp.Or(v.Typed.Role, Reader))
	if a.Provider != nil {
		v.Provider = a.Provider.Title
	}
	for i := range rows {
		if row := &rows[i]; v.FormRefused(*row) && v.Typed.Role != "" {
			row.Roles = roleOptions(w, v.Typed.Role)
		}
		if rows[i].Name == v.Changed.Name {
			v.Done = changedAccountText(w, v.Changed, rows[i])
		}
	}
	return a.layout.Show(c, status, "accounts", v)
}

func (a *Auth) accountRows(ctx context.Context, w texts.Words) (rows []accountView, err error) {
	list, err := a.Accounts.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range list {
		_, factor, err := a.secondFactorOf(ctx, x.Name)
		if err != nil {
			return nil, err
		}
		rows = append(rows, accountView{
			Name: x.Name, Made: w.Clock(x.MadeAt), Role: w.Or("role", x.Role), Roles: roleOptions(w, Role(x.Role)),
			Closed:   !x.DisabledAt.IsZero(),
			Identity: x.Identity, Password: x.Password != "", Factor: factor,
		})
	}
	return rows, nil
}

// changedAccountText describes an account after a change, from its row as it is now, because
// another change may have followed.
func changedAccountText(w texts.Words, r AccountChangeRequest, row accountView) string {
	key := r.Do
	switch {
	case row.Closed:
		key = "close"
	case !row.Password && row.Identity == "":
		key = "no_way"
	case r.Do == "close": // the account was opened again in the meantime
		key = "open"
	case r.Do == "identity" && row.Identity == "":
		key = "identity.none"
	case r.Do == "factor" && row.Factor:
		key = "factor.still"
	case r.Do == "add" && row.Identity != "":
		key = "add.identity"
	}
	return w.Get("accounts.done."+key, "name", row.Name, "role", row.Role, "identity", row.Identity)
}

func roleOptions(w texts.Words, chosen Role) (list []layout.FieldOption) {
	for _, r := range []Role{Reader, Operator, Owner} {
		list = append(list, layout.FieldOption{Value: string(r), Text: w.Or("role", string(r)), Chosen: r == chosen})
	}
	return list
}

func accountChangeIn(form url.Values) AccountChangeRequest {
	return AccountChangeRequest{
		Name: strings.TrimSpace(form.Get("name")), Role: Role(form.Get("role")), Do: form.Get("do"),
		Reason: strings.TrimSpace(form.Get("reason")), Identity: strings.TrimSpace(form.Get("identity")),
	}
}

func (a *Auth) changeAccount(c echo.Context, form url.Values) error {
	act, err := a.NewAuditEntry(c, actionAccounts)
	if err != nil {
		return err
	}
	request := accountChangeIn(form)
	password, err := ChangeAccount(c.Request().Context(), a.Accounts, request, a.now(), act)
	w := layout.Words(c)
	bad, refused := errors.AsType[*fault.InvalidError](err)
	switch {
	case refused:
		problem := cmp.Or(w.Get("accounts.problem."+bad.Reason),
			layout.ReasonProblem(w, bad, support.MaxReasonLength), bad.Detail)
		return a.showAccounts(c, http.StatusUnprocessableEntity, accountsView{Typed: request, Problem: problem})
	case err != nil:
		return err
	}
	return a.showAccounts(c, http.StatusOK,
		accountsView{Changed: request, Password: password})
}
