package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

func checkOf(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

// differing returns the names in a *store.OtherKeysError, or nil for another error.
func differing(err error) []string {
	if other, ok := errors.AsType[*store.OtherKeysError](err); ok {
		return other.Names
	}
	return nil
}

// keysAreChecked checks that a process adds the check values of its keys once. If one of them
// differs from the stored value, the process adds none.
func keysAreChecked(t *testing.T, f *Fixture) {
	enter := func(own store.KeyCheckValues) (store.KeyCheckValues, error) {
		return f.AddKeyCheckValues(t.Context(), own)
	}
	Equal(t, "at first", len(Must(f.KeyCheckValues(t.Context()))(t)), 0)
	first := store.KeyCheckValues{"index key": checkOf(1), "key k1": checkOf(2)}
	Equal(t, "entered", Must(enter(first))(t), first)
	Equal(t, "again", Must(enter(first))(t), first)
	_, err := enter(store.KeyCheckValues{"index key": checkOf(9), "key k1": checkOf(8), "key k2": checkOf(3)})
	Equal(t, "other keys", differing(err), []string{"index key", "key k1"})
	Equal(t, "of others", Must(f.KeyCheckValues(t.Context()))(t), first)
	_, err = enter(store.KeyCheckValues{"index key": checkOf(1), "key k1": checkOf(8)})
	Equal(t, "another key under a known name", differing(err), []string{"key k1"})
	both := store.KeyCheckValues{"index key": checkOf(1), "key k1": checkOf(2), "key k2": checkOf(3)}
	Equal(t, "one more", Must(enter(both))(t), both)
	Equal(t, "an older ring", Must(enter(first))(t), both)
}

// otherKeysAtOnce starts processes with different keys on an empty database at once. One process
// must add all its check values, and the others none.
func otherKeysAtOnce(t *testing.T, f *Fixture) {
	const all = 8
	errs := make([]error, all)
	own := func(n int) store.KeyCheckValues {
		return store.KeyCheckValues{"index key": checkOf(byte(n)), fmt.Sprintf("key k%d", n): checkOf(byte(n))}
	}
	Together(all, func(n int) { _, errs[n] = f.AddKeyCheckValues(t.Context(), own(n)) })
	winner := slices.Index(errs, nil)
	for n, err := range errs {
		if n != winner {
			Equal(t, fmt.Sprint("process ", n, ", ", err), differing(err), []string{"index key"})
			Equal(t, "a reason to try again", errors.Is(err, fault.Unavailable), false)
		}
	}
	Equal(t, "in the database", Must(f.KeyCheckValues(t.Context()))(t), own(winner))
}

// keysOfCodes checks that SampleCodeKeyIDs returns the keys of the codes that expire first and
// last, and of no expired code.
func keysOfCodes(t *testing.T, f *Fixture) {
	open := func(n int, key string, life time.Duration) {
		Must(f.Begin(t.Context(), f.Intent(n, func(in *store.Intent) { in.Verification.KeyID, in.TTL, in.MinLife = key, life, 0 })))(t)
	}
	named := func(limit int) []string { return Must(f.SampleCodeKeyIDs(t.Context(), limit))(t) }
	Equal(t, "at first", named(9), nil)
	open(1, "short", time.Minute)
	open(2, "k1", time.Hour)
	open(3, "k2", 2*time.Hour)
	open(4, "k2", 3*time.Hour)
	open(5, "k3", 4*time.Hour)
	Equal(t, "all", named(9), []string{"k1", "k2", "k3", "short"})
	f.Pass(time.Minute)
	Equal(t, "all that live", named(9), []string{"k1", "k2", "k3"})
	Equal(t, "at both ends", named(1), []string{"k1", "k3"})
}

// reseals checks that each row is resealed once, by its key. Erased and unreadable rows stay as
// they are.
func reseals(t *testing.T, f *Fixture) {
	for n := range 5 {
		Must(f.Begin(t.Context(), f.Intent(n+1, func(in *store.Intent) {
			in.Verification.ID, in.Verification.Sealed = fmt.Sprintf("v%d", n), fmt.Appendf(nil, "old %d, and so many bytes more", n)
		})))(t)
	}
	OK(t, f.Erase(t.Context(), recipient.Hash{15: 4}, time.Hour, f.Act()))
	pages := func() (text string) {
		OK(t, f.EachSealedPage(t.Context(), 2, func(table store.SealedTable, rows []store.SealedRow) error {
			for _, r := range rows {
				text += fmt.Sprintf("%s %s ", r.Key, r.Sealed[:5])
			}
			return nil
		}))
		return text
	}
	Equal(t, "before", pages(), "v0 old 0 v1 old 1 v2 old 2 v4 old 4 ")
	seal := func(r store.SealedRow) []byte {
		if r.Key == "v1" {
			return nil
		}
		return []byte("new" + strings.TrimPrefix(string(r.Sealed), "old"))
	}
	keys := []string{"v0", "v1", "v2", "v3", "no such row"}
	Equal(t, "changed", Must(f.Reseal(t.Context(), sqldb.SealedTables[0], keys, seal))(t), 2)
	Equal(t, "after", pages(), "v0 new 0 v1 old 1 v2 new 2 v4 old 4 ")
	held := f.Admit(t, f.Intent(9, withCode("old code"))).Send.ID
	Equal(t, "changed codes", Must(f.Reseal(t.Context(), sqldb.SealedTables[2], []string{held.String()}, seal))(t), 1)
	f.Pass(8 * time.Second)
	work := f.MustTakeOver(t, 10)
	Equal(t, "code", string(work[len(work)-1].Code), "new code")
	Is(t, Err(f.Reseal(t.Context(), sqldb.SealedTables[2], []string{"no ID"}, seal)), store.ErrBadRequest)
	Equal(t, "in full", string(f.Code(t, "v2").Sealed), "new 2, and so many bytes more")
}
