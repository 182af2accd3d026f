package auth

import (
	"context"
	"errors"
	"testing"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
)

// interleavingStore is a database that calls a function right after it has read an account.
type interleavingStore struct {
	accountStore
	afterRead func()
}

func (i interleavingStore) Account(ctx context.Context, name string) (store.Account, error) {
	a, err := i.accountStore.Account(ctx, name)
	i.afterRead()
	return a, err
}

// change applies the change afterRead to the account mei. A new role is reader, and a new identity
// is "new". It returns the reason if the change is refused.
func (r *rig) change(db accountStore, do string) (refusal string) {
	r.Helper()
	act, err := NewCommandAuditEntry()
	r.Must(err)
	_, err = ChangeAccount(r.Context(), db, AccountChangeRequest{Name: "mei", Role: Reader, Do: do, Reason: "x", Identity: "new"},
		r.Clock.Now(), act)
	if bad, ok := errors.AsType[*fault.InvalidError](err); ok {
		return bad.Reason
	}
	r.Must(err)
	return ""
}

// If two owners, or an owner and a command, change one account at the same moment, neither undoes
// the other's change.
func TestChangesOfAnAccountAtOnce(t *testing.T) {
	for _, order := range [][2]string{{"close", "role"}, {"role", "close"}, {"close", "password"}, {"close", "identity"}} {
		r := newRig(t)
		r.PutAccount(store.Account{Name: "mei", Role: "owner", Password: "old", Identity: "old"})
		refused := r.change(interleavingStore{r.Store, func() { r.change(r.Store, order[0]) }}, order[1])
		got, err := r.Store.Account(t.Context(), "mei")
		r.Must(err)
		changed := map[string]bool{
			"close": !got.DisabledAt.IsZero(), "role": got.Role == string(Reader), "password": got.Password != "old",
			"identity": got.Identity == "new",
		}
		if refused != "" || !changed[order[0]] || !changed[order[1]] {
			t.Errorf("%v: %q, %v", order, refused, changed)
		}
	}
}

// If another account with the same name or identity is added while a change is made, the change is
// refused in the same way as if it came later.
func TestAccountsAddedAtOnce(t *testing.T) {
	for want, other := range map[string]store.Account{
		"taken": {Name: "mei", Role: "owner"}, "identity_taken": {Name: "li", Role: "reader", Identity: "new"},
	} {
		r := newRig(t)
		refused := r.change(interleavingStore{r.Store, func() { r.PutAccount(other) }}, "add")
		got, err := r.Store.Account(t.Context(), other.Name)
		r.Must(err)
		if other.MadeAt = got.MadeAt; refused != want || got != other {
			t.Errorf("%q, want %q; another is %s, %s", refused, want, got.Role, got.Identity)
		}
	}
}
