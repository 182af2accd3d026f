package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"sendcode/internal/audit"
	"sendcode/internal/verification"
)

// accountsView is the page of those who may log in.
type accountsView struct {
	page
	Rows     []accountView
	Roles    []option
	Provider string // what the provider is called; empty: there is none
	Name     string // as typed, when it was not done
	Identity string
	Reason   string
	Problem  string
	Done     string
	Password string // of a new account, or a new one: shown this once
}

type accountView struct {
	Name   string
	Made   clock
	Roles  []option
	Role   string
	Closed bool

	Identity string
	Password bool // has one
	Factor   bool // has a second factor
}

var (
	accountName = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,31}$`)
	reserved    = map[string]bool{bootstrap.name: true, bearerName: true, commandLine: true}
)

// commandLine is who the acts say it was that had a shell.
const commandLine = "cli"

func (a *Admin) accountsPage(c echo.Context) error {
	return a.showAccounts(c, http.StatusOK, accountsView{})
}

func (a *Admin) showAccounts(c echo.Context, status int, v accountsView) error {
	list, err := a.log.Accounts(c.Request().Context())
	if err != nil {
		return a.unreadable(c.Request().Context(), err)
	}
	w := wordsFor(c.Request())
	v.page = page{W: w, Title: w.say("accounts.title"), In: true, Here: "accounts"}
	if v.Roles = roleOptions(w, Reader); a.provider != nil {
		v.Provider = a.provider.Title
	}
	for _, x := range list {
		factor, err := a.hasFactor(c.Request().Context(), x.Name)
		if err != nil {
			return err
		}
		v.Rows = append(v.Rows, accountView{
			Name: x.Name, Made: clock{Time: x.MadeAt}, Role: w.or("role", x.Role), Roles: roleOptions(w, Role(x.Role)), Closed: !x.DisabledAt.IsZero(),
			Identity: x.Identity, Password: x.Password != "", Factor: factor,
		})
	}
	return a.pages.show(c, status, "accounts", v)
}

func roleOptions(w words, chosen Role) (list []option) {
	for _, r := range []Role{Reader, Operator, Owner} {
		list = append(list, option{Value: string(r), Text: w.or("role", string(r)), Chosen: r == chosen})
	}
	return list
}

// Change is a wish about an account.
type Change struct {
	Name   string
	Role   Role   // of a new account, or another one
	Do     string // add, role, identity, password, factor, close or open; factor takes the second factor away
	Reason string

	Identity string // what the provider calls whom; a new account that has one gets no password
}

// ChangeAccount does what is wished of an account, and gives the password where a new one was made: it is shown once and
// kept as a hash. Errors: *verification.InvalidError, audit.ErrUnavailable.
func ChangeAccount(ctx context.Context, log audit.Accounts, w Change, now time.Time, act audit.Act) (password string, err error) {
	if err := verification.CheckReason(w.Reason, ""); err != nil {
		return "", err
	}
	if w.Do == "factor" {
		return "", dropFactor(ctx, log, w, act)
	}
	if !accountName.MatchString(w.Name) || reserved[w.Name] {
		return "", invalid("name", "bad_name", "A name begins with a small letter and has up to 32 of a-z, 0-9, dot, dash and underscore; admin, token and cli are taken.")
	}
	x, err := log.Account(ctx, w.Name)
	switch {
	case err == nil && w.Do == "add":
		return "", invalid("name", "taken", "There is an account of this name.")
	case errors.Is(err, audit.ErrNotFound) && w.Do != "add":
		return "", invalid("name", "unknown_account", "There is no account of this name.")
	case err != nil && !errors.Is(err, audit.ErrNotFound):
		return "", err
	}
	x.Name = w.Name
	if w.Do == "add" || w.Do == "role" {
		if ranks[w.Role] == 0 {
			return "", invalid("role", "bad_role", "A role is reader, operator or owner.")
		}
		x.Role = string(w.Role)
	}
	if w.Do == "add" || w.Do == "identity" {
		if x.Identity, err = identity(ctx, log, w); err != nil {
			return "", err
		}
	}
	switch {
	case w.Do == "password", w.Do == "add" && x.Identity == "":
		password = NewPassword()
		x.Password = HashPassword(password)
	case w.Do == "close":
		x.DisabledAt = now
	case w.Do == "open":
		x.DisabledAt = time.Time{}
	case !slices.Contains([]string{"add", "role", "identity"}, w.Do):
		return "", invalid("do", "invalid", "This is add, role, identity, password, factor, close or open.")
	}
	act.What, act.Target, act.Reason, act.Detail = deedAccounts+"."+w.Do, w.Name, w.Reason, x.Role
	return password, log.PutAccount(ctx, x, act)
}

// dropFactor is for who has lost the device and the recovery codes. Also the account of the settings may have.
func dropFactor(ctx context.Context, log audit.Accounts, w Change, act audit.Act) error {
	act.What, act.Target, act.Reason = deedAccounts+"."+w.Do, w.Name, w.Reason
	dropped, err := log.DropSecondFactor(ctx, w.Name, act)
	if err == nil && !dropped {
		return invalid("name", "no_factor", "This account has no second factor.")
	}
	return err
}

// identity is the wished one, which nobody else may have.
func identity(ctx context.Context, log audit.Accounts, w Change) (string, error) {
	strange := func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }
	if len(w.Identity) > maxIdentity || !utf8.ValidString(w.Identity) || strings.ContainsFunc(w.Identity, strange) {
		return "", invalid("identity", "bad_identity", "What the provider calls somebody has at most 200 bytes, and no spaces.")
	}
	other, err := log.AccountOf(ctx, w.Identity)
	switch {
	case err == nil && other.Name != w.Name:
		return "", invalid("identity", "identity_taken", "Another account has this name at the provider.")
	case err != nil && !errors.Is(err, audit.ErrNotFound):
		return "", err
	}
	return w.Identity, nil
}

// maxIdentity is in bytes.
const maxIdentity = 200

// ActOfCommand begins the record of what was done with a shell.
func ActOfCommand(act audit.Act) audit.Act {
	act.Who, act.Role, act.Network, act.Outcome = commandLine, string(Owner), "", audit.ActDone
	return act
}

func (a *Admin) changeAccount(c echo.Context) error {
	form, err := readForm(c)
	if err != nil {
		return err
	}
	act, err := a.act(c, deedAccounts)
	if err != nil {
		return err
	}
	wish := wishOf(form)
	password, err := ChangeAccount(c.Request().Context(), a.log, wish, a.now(), act)
	w := wordsFor(c.Request())
	var bad *verification.InvalidError
	switch {
	case errors.As(err, &bad):
		problem := or(or(w.say("accounts.problem."+bad.Reason), w.say("deed.problem."+bad.Reason)), bad.Detail)
		return a.showAccounts(c, http.StatusUnprocessableEntity, accountsView{Name: wish.Name, Identity: wish.Identity, Reason: wish.Reason, Problem: problem})
	case err != nil:
		return a.unreadable(c.Request().Context(), err)
	}
	return a.showAccounts(c, http.StatusOK, accountsView{Done: w.say("accounts.done", "name", wish.Name), Password: password})
}

func wishOf(form url.Values) Change {
	return Change{
		Name: strings.TrimSpace(form.Get("name")), Role: Role(form.Get("role")), Do: form.Get("do"), Reason: strings.TrimSpace(form.Get("reason")),
		Identity: strings.TrimSpace(form.Get("identity")),
	}
}
