package consoletest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification/verificationtest"
)

// Rig runs the console and the use cases on a clock that the test moves. Nothing runs in the
// background.
type Rig struct {
	*verificationtest.Rig
	Clock   *Clock
	Handler http.Handler // the newest console
	actions bytes.Buffer // what the database has logged about administrators' actions
}

// NewRig returns a rig that has no console yet.
func NewRig(t *testing.T) *Rig {
	t.Helper()
	clock := &Clock{}
	r := &Rig{Clock: clock, Rig: verificationtest.NewRigAt(t, clock.Now, func(s *verificationtest.Settings) {
		login := s.Purposes["login"]
		login.PolicyPurposes = []string{"login"}
		s.Purposes = map[string]policy.Purpose{"login": login}
	})}
	r.Svc = r.ReplicaOn(r.Store, r.MailServer, nil) // without text messages
	r.Store.Actions = slog.New(slog.NewJSONHandler(&r.actions, nil))
	t.Cleanup(r.checkActionLines)
	return r
}

// Ring returns the key ring that the service and the console share.
func (r *Rig) Ring() *keys.Ring { return r.Settings.Vault.Ring }

// Break makes calls of these methods of the database fail, or of all methods if none is given.
// r.Store.SetFault(nil) repairs the database.
func (r *Rig) Break(methods ...string) { r.Store.Fail(sqlitetest.Down, methods...) }

// Unlogged fails the test if the log of the process, or that of the database, contains one of the
// texts.
func (r *Rig) Unlogged(secrets ...string) {
	r.Helper()
	for _, secret := range secrets {
		if strings.Contains(r.Printed.String()+r.actions.String(), secret) {
			r.Errorf("%q is in the log", secret)
		}
	}
}

// checkActionLines compares the database's log lines with the audit entries. Each line must have
// the words of its entry, without recipient and reason. Each entry must have a line, too.
func (r *Rig) checkActionLines() {
	r.Store.SetFault(nil)
	entries := map[string]store.AuditEntry{}
	list, err := r.Store.AuditEntries(context.Background(), store.AuditFilter{Limit: 1000})
	if err != nil {
		r.Error(err)
	}
	for _, a := range list {
		entries[a.ID.String()] = a
	}
	for line := range bytes.Lines(r.actions.Bytes()) {
		var got map[string]string
		if err := json.Unmarshal(line, &got); err != nil {
			r.Fatal(err)
		}
		delete(got, "time")
		a, known := entries[got["id"]]
		want := map[string]string{
			"level": "INFO", "msg": "administrator's action", "event": "action", "id": a.ID.String(), "who": a.Who, "role": a.Role,
			"network": a.Network, "action": a.What, "app": a.App, "channel": string(a.Channel), "purpose": a.Purpose, "target": a.Target,
			"outcome": string(a.Outcome), "detail": a.Detail,
		}
		if a.Completes != uuid.Nil {
			want["ends"] = a.Completes.String()
		}
		maps.DeleteFunc(want, func(_, value string) bool { return value == "" })
		if !known || !maps.Equal(got, want) {
			r.Errorf("a line without its entry, or with another: %s", line)
		}
		delete(entries, got["id"])
	}
	for _, a := range entries {
		r.Errorf("no line of %+v", a)
	}
}

// Must ends the test if the last result of a call is an error.
func (r *Rig) Must(results ...any) {
	r.Helper()
	if err, _ := results[len(results)-1].(error); err != nil {
		r.Fatal(err)
	}
}

// PutAccount adds an account, or changes the account of the same name so that it equals a.
func (r *Rig) PutAccount(a store.Account) {
	r.Helper()
	id, err := uuid.NewV7()
	r.Must(err)
	act := store.AuditEntry{ID: id, Who: "test", What: "account.add", Outcome: store.AuditDone}
	err = r.Store.AddAccount(r.Context(), a, act)
	if errors.Is(err, store.ErrNameTaken) {
		all := store.AccountChange{Role: &a.Role, Password: &a.Password, Identity: &a.Identity, DisabledAt: &a.DisabledAt}
		err = r.Store.ChangeAccount(r.Context(), a.Name, all, act)
	}
	r.Must(err)
}

// NewDevice returns an authenticator app that has the secret, on the rig's clock.
func (r *Rig) NewDevice(secret string) Device { return Device{T: r.T, Clock: r.Clock, Secret: secret} }

// Entries returns the audit entries of an action, or of all actions if action is "". It returns at
// most 100, the newest first.
func (r *Rig) Entries(action string) []store.AuditEntry {
	r.Helper()
	list, err := r.Store.AuditEntries(r.Context(), store.AuditFilter{What: action, Limit: 100})
	r.Must(err)
	return list
}

// Act has the fields of an audit entry that tests compare.
type Act struct {
	Who, What  string
	Outcome    store.AuditOutcome
	Detail     string
	To, Reason string
}

// RecordedActs returns the actions of administrators, oldest first, without their logins.
func (r *Rig) RecordedActs() (acts []Act) {
	r.Helper()
	for _, a := range slices.Backward(r.Entries("")) {
		if a.What != "login" {
			acts = append(acts, Act{a.Who, a.What, a.Outcome, a.Detail, a.To, a.Reason})
		}
	}
	return acts
}

// WantActs fails the test unless these are exactly the actions of administrators.
func (r *Rig) WantActs(want ...Act) {
	r.Helper()
	got := r.RecordedActs()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			r.Errorf("act %d is missing: %+v", i+1, want[i])
		case i >= len(want):
			r.Errorf("act %d is not wanted: %+v", i+1, got[i])
		case got[i] != want[i]:
			r.Errorf("act %d:\n\t got %+v\n\twant %+v", i+1, got[i], want[i])
		}
	}
}

// Browser returns a browser without cookies, in front of the newest console.
func (r *Rig) Browser() *Browser {
	return &Browser{T: r.T, Handler: r.Handler, Cookies: map[string]*http.Cookie{}, Base: Address, From: "192.0.2.1:5000"}
}

// LoggedIn returns a browser in which the configured account is logged in.
func (r *Rig) LoggedIn() *Browser {
	r.Helper()
	b := r.Browser()
	Want(r.T, b.Login(Password), http.StatusSeeOther)
	return b
}

// As returns a browser in which an account with the role is logged in.
func (r *Rig) As(role string) *Browser {
	r.Helper()
	name := "the-" + role
	if _, err := r.Store.Account(r.Context(), name); err != nil {
		r.PutAccount(store.Account{Name: name, Role: role, Password: SmallHash(name + "'s password")})
	}
	b := r.Browser()
	Want(r.T, b.LoginAs(name, name+"'s password"), http.StatusSeeOther)
	return b
}

// Between returns the part of a page between the texts before and after, or up to an ampersand if
// that comes first. It ends the test if the page lacks the first text.
func Between(t *testing.T, page, before, after string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, before)
	if !found {
		t.Fatalf("%q is missing in: %s", before, page)
	}
	text, _, _ := strings.Cut(rest, after)
	text, _, _ = strings.Cut(text, "&")
	return text
}
