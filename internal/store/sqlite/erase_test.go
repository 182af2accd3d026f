package sqlite

import (
	"bytes"
	"os"
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store/storetest"
)

// The file itself and what is beside it, not only what its rows say.
func TestSQLiteKeepsNoTrace(t *testing.T) {
	clock, path := &storetest.TestClock{At: storetest.Epoch}, storetest.TempFile(t)
	f := storetest.NewFixture(openSQLite(t, path, clock)).Clocked(storetest.Epoch, clock.Step)
	for n := range 40 {
		f.Admit(t, f.Intent(n)) // others, before and after, so that rows move about on their pages
		if n == 20 {
			storetest.WriteTraces(t, f, 77)
		}
	}
	files := func() []byte {
		var all []byte
		for _, suffix := range []string{"", "-wal", "-journal"} {
			content, err := os.ReadFile(path + suffix)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			all = append(all, content...)
		}
		return all
	}
	storetest.Equal(t, "before", len(storetest.FoundIn(files())), len(storetest.Traces))
	storetest.OK(t, f.Erase(t.Context(), recipient.Hash{15: 77}, time.Hour, f.Act()))
	storetest.Equal(t, "traces", storetest.FoundIn(files()), nil)
	hash := append(make([]byte, 15), 77)
	storetest.Equal(t, "the hash counts on", bytes.Contains(files(), hash), true)
	f.Pass(time.Hour)
	storetest.Equal(t, "forgotten", storetest.Must(f.Forget(t.Context()))(t), 1)
	storetest.Equal(t, "the hash", bytes.Contains(files(), hash), false)
}
