// Package commands has the commands that work on the database and the files of an installation:
// init, migrate, backup, restore, move and admin. None of them needs the running service. The
// command bounce posts a mail to the running service. Package app has the command rekey and the
// comparison of keys for the command doctor, since the running service uses both, and the export of
// admin, which needs the service's keys.
package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
	"sendcode/internal/store/sqldb"
)

// AdminCommand has the arguments and flags of `sendcode admin`. The command changes or lists
// accounts of the console, or exports the rows of a person.
type AdminCommand struct {
	Do     string    `arg:"" enum:"add,role,identity,password,factor,close,open,list,export" help:"One of add, role, identity, password, factor, close, open or list, which change or list accounts; or export, which prints all rows that name a person, as JSON."`
	Name   string    `arg:"" optional:"" help:"The name of the account."`
	Role   auth.Role `enum:"reader,operator,owner" default:"reader" help:"The role for add and role: reader, operator or owner."`
	Reason string    `help:"Why you do this. The audit log records it."`

	Channel string `help:"The channel for export: email or sms." enum:"email,sms" default:"email"`
	To      string `help:"The person's address or number, for export."`

	Identity string `help:"For add and identity: the person's name at the OpenID provider. A person with such a name needs no password."`
}

// Validate returns an error that names the missing arguments and flags. kong calls it.
func (c AdminCommand) Validate() error {
	var missing []string
	switch {
	case c.Do == "export" && c.To == "":
		missing = append(missing, "--to")
	case c.Do != "list" && c.Do != "export" && c.Name == "":
		missing = append(missing, "<name>")
	}
	if c.Do != "list" && c.Reason == "" {
		missing = append(missing, "--reason")
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s needs %s", c.Do, strings.Join(missing, " and "))
}

// withOptionName returns an error that names the option or argument of the command line instead of
// the field of a *fault.InvalidError. It returns other errors unchanged.
func withOptionName(err error) error {
	bad, ok := errors.AsType[*fault.InvalidError](err)
	if !ok {
		return err
	}
	field := "--" + bad.Field
	if bad.Field == "name" {
		field = "<name>"
	}
	return fmt.Errorf("%s: %s", field, cmp.Or(bad.Detail, bad.Reason))
}

// ChangeAccount adds or changes an account of the console, for an administrator who cannot log in.
// It records the change in the audit trail as an action of "cli". It prints a new password to out,
// and never shows it again. The action "list" prints all accounts, and begins with the accounts in
// the settings. The action "export" prints the rows of a person.
func ChangeAccount(ctx context.Context, cfg config.Config, command AdminCommand, out io.Writer) error {
	if command.Do == "export" {
		entry, err := auth.NewCommandAuditEntry()
		if err != nil {
			return err
		}
		entry.What, entry.Reason = auth.ActionExportRecipient, command.Reason
		return withOptionName(app.ExportPerson(ctx, cfg, command.Channel, command.To, entry, out))
	}
	db, done, err := app.OpenStoreForCommand(ctx, cfg, "while the service runs, use /admin/accounts")
	if err != nil {
		return err
	}
	defer func() { _ = done() }()
	if command.Do == "list" {
		return listAccounts(ctx, cfg, db, out)
	}
	entry, err := auth.NewCommandAuditEntry()
	if err != nil {
		return err
	}
	w := auth.AccountChangeRequest{
		Name: command.Name, Role: command.Role, Do: command.Do, Reason: command.Reason, Identity: command.Identity,
	}
	password, err := auth.ChangeAccount(ctx, db, w, time.Now(), entry)
	if err != nil {
		return withOptionName(err)
	}
	if password != "" {
		_, err = fmt.Fprintf(out, "The password of %s, which is shown only once:\n%s\n", w.Name, password)
	}
	return err
}

// listAccounts prints a line for each account: name, role, state, time of creation ("settings" for
// an account of the settings), and its identity at the provider.
func listAccounts(ctx context.Context, cfg config.Config, db *sqldb.DB, out io.Writer) error {
	list, err := db.Accounts(ctx)
	if err != nil {
		return err
	}
	for _, a := range auth.ConfiguredActors(cfg.AdminHasPassword(), app.AdminTokens(cfg)) {
		if _, err := fmt.Fprintf(out, "%s\t%s\topen\tsettings\t\n", a.Name, a.Role); err != nil {
			return err
		}
	}
	for _, a := range list {
		state := "open"
		if !a.DisabledAt.IsZero() {
			state = "closed"
		}
		if _, err := fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", a.Name, a.Role, state, a.MadeAt.Format(time.RFC3339),
			a.Identity); err != nil {
			return err
		}
	}
	return nil
}
