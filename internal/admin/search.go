package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/audit"
	"sendcode/internal/recipient"
	"sendcode/internal/verification"
)

// searchPage leads from what was typed to an address that no longer has it in the clear: the recipient's hash, a
// send's page, or the reference.
func (a *Admin) searchPage(c echo.Context) error {
	form, err := readForm(c)
	if err != nil {
		return err
	}
	typed := strings.TrimSpace(form.Get("q"))
	to, err := a.supported(c.Request().Context(), typed)
	if err == nil && to == "" {
		to, err = a.lookUp(c.Request().Context(), typed)
	}
	var bad *verification.InvalidError
	if errors.As(err, &bad) {
		q := query{filter: audit.Filter{Limit: defaultLimit}, given: url.Values{}}
		return a.showList(c, http.StatusUnprocessableEntity, q, searchView{Typed: typed, Problem: a.searchProblem(c, bad)})
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, to)
}

func (a *Admin) searchProblem(c echo.Context, bad *verification.InvalidError) string {
	w := wordsFor(c.Request())
	if bad.Reason == "required" {
		return w.say("search.empty")
	}
	return or(w.say("search.reason."+bad.Reason), bad.Detail)
}

// supported is where a support reference leads: to its send or, where several share it, to a list of them. Empty: the
// text is none, or no send has it.
func (a *Admin) supported(ctx context.Context, typed string) (string, error) {
	rows, err := a.log.Referenced(ctx, typed)
	switch {
	case err != nil:
		return "", a.unreadable(ctx, err)
	case len(rows) == 0:
		return "", nil
	case len(rows) == 1:
		return sendAddress(rows[0].ID), nil
	}
	return address(nil, "support", audit.SupportReference(rows[0].ID)), nil
}

// lookUp is where a search leads. Whatever may be a recipient is never taken for a reference, which would put it into
// the address.
func (a *Admin) lookUp(ctx context.Context, typed string) (string, error) {
	if typed == "" {
		return "", invalid("q", "required", "")
	}
	if id, err := uuid.Parse(typed); err == nil && strings.EqualFold(id.String(), typed) {
		return sendAddress(id), nil
	}
	if h, err := recipient.ParseHash(typed); err == nil {
		return address(nil, "recipient", h.String()), nil
	}
	ch, is := channelOf(typed)
	if !is {
		if problem := parameters["reference"](&audit.Filter{}, typed, a.now()); problem != "" {
			return "", invalid("q", "invalid", problem)
		}
		return address(nil, "reference", typed), nil
	}
	h, err := a.codes.Hash(string(ch), typed)
	if err != nil {
		return "", err
	}
	to := address(nil, "recipient", h.String())
	rows, err := a.log.Sends(ctx, audit.Filter{Recipient: &h, Limit: 1})
	if err != nil {
		return "", a.unreadable(ctx, err)
	}
	if len(rows) > 0 {
		return to, nil
	}
	hints, err := a.hintsOf(ctx, ch, typed)
	return hints.address(to), err
}

// channelOf says what kind of recipient was typed, if any: something with an at sign is an address, something of
// digits, perhaps grouped, a number.
func channelOf(typed string) (recipient.Channel, bool) {
	if strings.ContainsAny(typed, "@＠") {
		return recipient.Email, true
	}
	digits := 0
	for _, r := range typed {
		switch {
		case unicode.IsDigit(r):
			digits++
		case !strings.ContainsRune("+＋ -()./\u00a0", r):
			return "", false
		}
	}
	return recipient.SMS, digits >= 5
}
