package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// Each row is replaced once, by its key; what was erased and what cannot be read stay as they are.
func reseals(t *testing.T, f *Fixture) {
	for n := range 5 {
		Must(f.Begin(t.Context(), f.Intent(n+1, func(in *store.Intent) {
			in.Verification.ID, in.Verification.Sealed = fmt.Sprintf("v%d", n),
				fmt.Appendf(nil, "old %d, and so many bytes more", n)
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
	v, _, _, err := f.Verification(t.Context(), "v2")
	OK(t, err)
	Equal(t, "in full", string(v.Sealed), "new 2, and so many bytes more")
}
