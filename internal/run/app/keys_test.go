package app

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/texts"
	"sendcode/internal/codes/keys"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/store/storetest"
)

const (
	k1 = "k1:q83vEjRWeJCrze8SNFZ4kLD3QZxs0lr2uTnVYQ1bXoM="
	k2 = "k2:KsX548KrTLEYf3plsNe9tow4CUSACpuzYDGYoWlrspU="
)

// keyedDatabase is a database on a test's clock. Processes with different keys use it.
type keyedDatabase struct {
	*testing.T
	*storetest.Fixture
	printed servertest.Text
	n       int
}

func newKeyedDatabase(t *testing.T) *keyedDatabase {
	t.Helper()
	clock := &storetest.TestClock{At: storetest.Epoch}
	db := storetest.Must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), clock.Now))(t)
	t.Cleanup(func() { storetest.OK(t, db.Close()) })
	return &keyedDatabase{T: t, Fixture: storetest.NewFixture(db).Clocked(clock.At, clock.Step)}
}

func (k *keyedDatabase) process(ring, index string) *keyCheck {
	k.Helper()
	parsed := storetest.Must(keys.Parse(ring))(k.T)
	return &keyCheck{
		vault: keys.Vault{IndexKey: []byte(strings.Repeat(index, 32)), Ring: parsed}, db: k.DB,
		logger: slog.New(slog.NewTextHandler(&k.printed, nil)),
	}
}

// writeCode adds the row of a code that is valid for ten minutes and is sealed with this ring. It
// returns the code's ID. The ID begins with the letter idPrefix, because rows are read in the order
// of their IDs.
func (k *keyedDatabase) writeCode(idPrefix, ring string) string {
	k.Helper()
	k.n++
	id := fmt.Sprintf("%s-%d", idPrefix, k.n)
	r := storetest.Must(keys.Parse(ring))(k.T)
	sealed := storetest.Must(r.Seal(keys.RecipientLabel, []byte("someone"), []byte(id)))(k.T)
	storetest.Must(k.Begin(k.Context(), k.Intent(k.n, func(in *store.Intent) {
		in.Verification.ID, in.Verification.KeyID, in.Verification.Sealed = id, r.CurrentID(), sealed
	})))(k.T)
	return id
}

// wantReport runs the check until it has read all rows. It fails the test unless the check then
// reports want: the missing keys, the word of another reason, or "" if nothing is wrong.
func (k *keyedDatabase) wantReport(c *keyCheck, want string) {
	k.Helper()
	for again := true; again; {
		again = storetest.Must(c.run(k.Context()))(k.T)
	}
	reported := word(c.whyIncomplete(k.Context()))
	if r := c.whyIncomplete(k.Context()); r != nil && r.Word == "key_missing" {
		reported = strings.TrimSuffix(strings.TrimPrefix(r.Text(texts.ConsoleLanguages()[0]),
			"SENDCODE_SECRET_KEYS lacks "), ", which codes or stored addresses need.")
	}
	storetest.Equal(k.T, "missing", reported, want)
}

// A key that the ring lacks counts as missing while an unexpired code or a sealed row needs it.
func TestKeyCheckMissesAKeyThatRowsNeed(t *testing.T) {
	k := newKeyedDatabase(t)
	old, fresh := k.process(k1, "i"), k.process(k2+","+k1, "i")
	k.wantReport(old, "")
	k.wantReport(fresh, "") // adds the check value of k2
	k.writeCode("a", k1)
	k.wantReport(old, "")
	id := k.writeCode("b", k2)
	k.wantReport(old, "k2")
	k.wantReport(fresh, "")
	k.Pass(time.Hour)
	k.wantReport(old, "k2") // the code has expired, but its row is sealed under k2
	back := storetest.Must(keys.Parse(k1 + "," + k2))(t)
	storetest.Must(k.Reseal(t.Context(), sqldb.SealedTables[0], []string{id}, func(r store.SealedRow) []byte {
		return storetest.Must(back.Reseal(keys.RecipientLabel, r.Sealed, []byte(r.Key)))(t)
	}))(t)
	k.wantReport(old, "")
	k.writeCode("a", k2) // sorts before the rows that were read
	k.wantReport(old, "k2")
	k.Pass(time.Hour)
	k.wantReport(old, "k2")
	if n := strings.Count(k.printed.String(), "key ring incomplete"); n != 2 {
		t.Errorf("%d warnings, want one of each change: %s", n, k.printed.String())
	}
	if n := strings.Count(k.printed.String(), "key ring complete again"); n != 1 {
		t.Errorf("%d lines say that all is well", n)
	}
}

// Each run reads a few sealed rows, from the oldest on. Missing keys that a run found stay recorded
// until all rows were read.
func TestKeyCheckReadsSealedRowsInParts(t *testing.T) {
	k := newKeyedDatabase(t)
	k.wantReport(k.process(k2+","+k1, "i"), "")
	old := k.process(k1, "i")
	old.rows = 2
	for _, week := range []string{"a", "b", "c", "d", "e"} {
		k.writeCode(week, k1)
	}
	id := k.writeCode("f", k2)
	k.wantReport(old, "k2") // the code has not expired
	k.Pass(time.Hour)
	for range 2 {
		if again := storetest.Must(old.run(t.Context()))(t); !again || word(old.whyIncomplete(t.Context())) != "key_missing" {
			t.Errorf("again %v, %v", again, old.whyIncomplete(t.Context()))
		}
	}
	k.wantReport(old, "k2")
	storetest.Must(k.Reseal(t.Context(), sqldb.SealedTables[0], []string{id},
		func(store.SealedRow) []byte { return []byte("damaged") }))(t)
	k.wantReport(old, "")
	k.wantReport(k.process(k2, "i"), "k1") // a missing key of many rows is found, too
}

// If a key becomes known between two runs, the next run finds the key's rows, even if their codes
// have expired.
func TestKeyCheckOfAKeyThatBecomesKnown(t *testing.T) {
	k := newKeyedDatabase(t)
	k.wantReport(k.process(k1, "i"), "")
	c := k.process(k2, "i")
	k.wantReport(c, "")
	k3 := "k3:" + strings.TrimPrefix(k1, "k1:")
	k.wantReport(k.process(k2+","+k3, "i"), "")
	k.writeCode("a", k3)
	k.Pass(time.Hour)
	k.wantReport(c, "k3")
}

// A process becomes unready if the database has been written with other keys, for example because
// another database has replaced its own.
func TestKeyCheckOfADatabaseWithOtherKeys(t *testing.T) {
	k := newKeyedDatabase(t)
	k.wantReport(k.process(k1, "i"), "")
	k.wantReport(k.process(k1, "j"), "other_keys!")
	k.wantReport(k.process("k1:"+strings.TrimPrefix(k2, "k2:"), "i"), "other_keys!")
	if n := strings.Count(k.printed.String(), "level=ERROR msg=\"keys differ from those of database: "); n != 2 {
		t.Errorf("%d errors: %s", n, k.printed.String())
	}
}
