package auth

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// accountsLog has a name of its own: Accounts is a method, too.
type accountsLog = store.AccountStore

// meanwhile is a log in which something happens right after an account was read.
type meanwhile struct {
	accountsLog
	do func()
}

func (m meanwhile) Account(ctx context.Context, name string) (store.Account, error) {
	a, err := m.accountsLog.Account(ctx, name)
	m.do()
	return a, err
}

// Two owners, or one and a shell, change one account in the same moment: neither undoes what the other did.
func TestChangesOfAnAccountAtOnce(t *testing.T) {
	for _, order := range [][2]string{{"close", "role"}, {"role", "close"}, {"close", "password"}, {"close", "identity"}} {
		r := newRig(t)
		r.Account(store.Account{Name: "mei", Role: "owner", Password: "old", Identity: "old"})
		wish := func(log store.AccountStore, do string) {
			t.Helper()
			act := ActOfCommand(store.AuditEntry{ID: uuid.Must(uuid.NewV7())})
			_, err := ChangeAccount(t.Context(), log, Change{Name: "mei", Role: Reader, Do: do, Reason: "x", Identity: "new"}, r.Clock.Now(), act)
			r.Must(err)
		}
		wish(meanwhile{r.Log, func() { wish(r.Log, order[0]) }}, order[1])
		got, err := r.Log.Account(t.Context(), "mei")
		r.Must(err)
		changed := map[string]bool{
			"close": !got.DisabledAt.IsZero(), "role": got.Role == string(Reader), "password": got.Password != "old", "identity": got.Identity == "new",
		}
		if !changed[order[0]] || !changed[order[1]] {
			t.Errorf("%v: %v", order, changed)
		}
	}
}

// An account that is added, or gets an identity, in the moment in which another does is refused as it is a moment later.
func TestAccountsAddedAtOnce(t *testing.T) {
	for want, other := range map[string]store.Account{
		"taken": {Name: "mei", Role: "owner"}, "identity_taken": {Name: "li", Role: "reader", Identity: "mei@example.com"},
	} {
		r := newRig(t)
		log := meanwhile{r.Log, func() { r.Account(other) }}
		_, err := ChangeAccount(t.Context(), log, Change{Name: "mei", Role: Reader, Do: "add", Reason: "x", Identity: "mei@example.com"}, r.Clock.Now(), ActOfCommand(store.AuditEntry{ID: r.id()}))
		var bad *verification.InvalidError
		if !errors.As(err, &bad) || bad.Reason != want {
			t.Errorf("%s: %v", want, err)
		}
		got, err := r.Log.Account(t.Context(), other.Name)
		r.Must(err)
		if other.MadeAt = got.MadeAt; got != other {
			t.Errorf("%s: another is %s, %s", want, got.Role, got.Identity)
		}
	}
}
