package auth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
)

// reservedNames are the names that audit entries use for actors without an account in the database.
var reservedNames = map[string]bool{configuredAccount.Name: true, tokenActorName: true, commandLineActor: true}

// commandLineActor is the actor in the audit entries of commands.
const commandLineActor = "cli"

// ChangeAccount returns these errors. It also returns them if another change at the same time
// causes the conflict.
var (
	errNameTaken      = fault.Invalid("name", "taken", "There already is an account with this name.")
	errUnknownAccount = fault.Invalid("name", "unknown_account", "There is no account with this name.")
	errIdentityTaken  = fault.Invalid("identity", "identity_taken", "Another account has this name at the provider.")
)

// AccountChangeRequest is a change that an owner requests, in the console or with a command.
type AccountChangeRequest struct {
	Name   string
	Role   Role   // of a new account, or the account's new role
	Do     string // add, role, identity, password, close, open, or factor: remove the second factor
	Reason string

	Identity string // the person's name at the provider; a new account with an identity gets no password
}

// ChangeAccount changes an account. If it made a new password, it returns the password. The
// database stores only the hash of the password. The error is a *fault.InvalidError or
// fault.Unavailable.
func ChangeAccount(ctx context.Context, db accountStore, request AccountChangeRequest, now time.Time,
	act store.AuditEntry,
) (password string, err error) {
	if err := support.CheckReason(request.Reason, ""); err != nil {
		return "", err
	}
	act.What, act.Target, act.Reason = actionAccounts+"."+request.Do, request.Name, request.Reason
	if request.Do == "factor" { // for people who lost their device; also for configuredAccount
		dropped, err := db.DropSecondFactor(ctx, request.Name, act)
		if err == nil && !dropped {
			err = fault.Invalid("name", "no_factor", "This account has no second factor.")
		}
		return "", err
	}
	if !store.IsAccountName(request.Name) || reservedNames[request.Name] {
		return "", fault.Invalid("name", "bad_name",
			"A name begins with a small letter and has up to 32 of a-z, 0-9, dot, dash and underscore; admin, token and cli are taken.")
	}
	switch _, err := db.Account(ctx, request.Name); {
	case err == nil && request.Do == "add":
		return "", errNameTaken
	case errors.Is(err, fault.NotFound) && request.Do != "add":
		return "", errUnknownAccount
	case err != nil && !errors.Is(err, fault.NotFound):
		return "", err
	}
	c, password, err := prepareChange(ctx, db, request, now)
	if err != nil {
		return "", err
	}
	if request.Do == "add" {
		act.Detail = string(request.Role)
		err = db.AddAccount(ctx, store.Account{Name: request.Name}.WithChange(c), act)
	} else {
		err = db.ChangeAccount(ctx, request.Name, c, act)
	}
	switch {
	case err == nil:
		return password, nil
	case errors.Is(err, store.ErrNameTaken):
		return "", errNameTaken
	case errors.Is(err, store.ErrIdentityTaken):
		return "", errIdentityTaken
	case errors.Is(err, fault.NotFound):
		return "", errUnknownAccount
	}
	return "", err
}

// prepareChange returns the change that the store has to make for the request. It also returns the
// new password if one was made.
func prepareChange(ctx context.Context, db accountStore, request AccountChangeRequest, now time.Time) (
	c store.AccountChange, password string, err error,
) {
	if request.Do == "add" || request.Do == "role" {
		if roleRanks[request.Role] == 0 {
			return c, "", fault.Invalid("role", "bad_role", "The role must be reader, operator or owner.")
		}
		c.Role = new(string(request.Role))
	}
	if request.Do == "add" || request.Do == "identity" {
		if err := checkIdentity(ctx, db, request); err != nil {
			return c, "", err
		}
		c.Identity = &request.Identity
	}
	switch {
	case request.Do == "password", request.Do == "add" && *c.Identity == "":
		password = newPassword()
		c.Password = new(hashPassword(password))
	case request.Do == "close":
		c.DisabledAt = &now
	case request.Do == "open":
		c.DisabledAt = &time.Time{}
	case !slices.Contains([]string{"add", "role", "identity"}, request.Do):
		return c, "", fault.Invalid("do", "invalid", "The action must be add, role, identity, password, factor, close or open.")
	}
	return c, password, nil
}

// checkIdentity returns an error if the requested identity is malformed, or if another account has
// the identity.
func checkIdentity(ctx context.Context, db accountStore, request AccountChangeRequest) error {
	strange := func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }
	if len(request.Identity) > maxIdentityLength || !utf8.ValidString(request.Identity) || strings.ContainsFunc(request.Identity, strange) {
		return fault.Invalid("identity", "bad_identity",
			"The name at the provider has at most 200 bytes, and no spaces.")
	}
	other, err := db.AccountByIdentity(ctx, request.Identity)
	switch {
	case err == nil && other.Name != request.Name:
		return errIdentityTaken
	case err != nil && !errors.Is(err, fault.NotFound):
		return err
	}
	return nil
}

const maxIdentityLength = 200 // bytes

// NewCommandAuditEntry returns an audit entry for an action from the command line. It does not
// write the entry.
func NewCommandAuditEntry() (store.AuditEntry, error) {
	id, err := uuid.NewV7()
	return store.AuditEntry{ID: id, Who: commandLineActor, Role: string(Owner), Outcome: store.AuditDone}, err
}
