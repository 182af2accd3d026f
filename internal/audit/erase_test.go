package audit

import (
	"bytes"
	"database/sql"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/parts"
	"sendcode/internal/recipient"
)

// columns says of every column what becomes of it when somebody is erased: it tells nothing of a recipient, it is erased,
// or it is the keyed hash, which goes when its time has come. Whoever adds a column says it here, and in personal.
var columns = map[string]struct{ nothing, erased, hash string }{
	"sends": {
		nothing: `id verification_id number app channel purpose status reason attempt in_doubt counts taken_at clock
			logged_at finished_at provider provider_code took blocked_by retry_after requests recipients observed forgiven suppression_id afterwards receipt`,
		erased: `masked domain country prefix reference ip locale`, hash: `recipient`,
	},
	"flights":  {nothing: `id due_at attempt queued channel`},
	"refunds":  {nothing: `id since attempt`},
	"failures": {nothing: `status logged_at id finished_at counts app channel`, hash: `recipient`},
	"minutes":  {nothing: `field value minute`},
	"verifications": {
		nothing: `id app channel purpose key_id code_length alphabet created_at expires_at attempts max_attempts sends approved_at canceled_at forgiven by_browser`,
		erased:  `masked sealed holder nonce locale reference`, hash: `recipient`,
	},
	"act_people": {nothing: `act`, erased: `masked`, hash: `recipient`},
	"acts":       {nothing: `id at who role network what app channel purpose target reason outcome detail ends`}, // of the administrator; a reason that names somebody is refused
	"claims":     {nothing: `key fingerprint send_id made_at held_until`},                                        // keyed hashes, for a day
	"erasures":   {nothing: `erased_at forget_at`, hash: `recipient`},
	"suppressions": {
		nothing: `id app channel reason send_id made_by since until lifted_at lifted_by`, erased: `masked detail lifted_why`, hash: `address recipient`,
	},
	"app_events":      {nothing: `id app type send_id verification_id status reason test at state attempt due_at ended_at answer`},
	"accounts":        {nothing: `name role password identity made_at disabled_at`}, // of administrators
	"sessions":        {nothing: `id account bound via granted passed started_at seen_at`},
	"second_factors":  {nothing: `account sealed step made_at`},
	"recovery_codes":  {nothing: `account hash`},
	"provider_events": {nothing: `send_id kind at heard_at provider detail`}, // detail: a code or one word
	"spending":        {nothing: `account period used`},
	"embargoes":       {nothing: `channel since until`, hash: `recipient`},
	"prefix_pauses":   {nothing: `id app country prefix since until sends approved usual lifted_at lifted_by lifted_why`}, // of numbers, not of a number
	"turns":           {nothing: `name until`},
	"awaited":         {nothing: `carrier message_id send_id at ask_at asked`}, // the carrier's names for messages, for three days
	"hours":           {nothing: `hour`},
	"hour_tallies":    {nothing: `hour app channel purpose status reason blocked_by rows requests opened approved`},
	"hour_times":      {nothing: `hour app channel purpose bucket n`},
	"hour_domains":    {nothing: `hour app channel purpose sends failed rejected`, erased: `domain`},
	"writable":        {nothing: `filling`},
	"sendcode_schema": {nothing: `id version_id is_applied tstamp`},
}

func TestEveryColumnIsErased(t *testing.T) {
	path := tempFile(t)
	log, err := OpenSQLite(t.Context(), path, time.Now)
	ok(t, err)
	ok(t, log.Close())
	file, err := sql.Open("sqlite", path)
	ok(t, err)
	defer file.Close()
	rows, err := file.Query(`SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`)
	ok(t, err)
	var lite [][2]string
	for rows.Next() {
		var c [2]string
		ok(t, rows.Scan(&c[0], &c[1]))
		lite = append(lite, c)
	}
	ok(t, rows.Err())
	pg := openTest(t, newDatabase(t, parts.Postgres(t)), serverClock)
	full, err := readRows(t.Context(), pg, func(c *[2]string) []any { return []any{&c[0], &c[1]} },
		`SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()
AND table_name NOT IN (SELECT name FROM sendcode_partitions) AND table_name <> 'sendcode_partitions'`)
	ok(t, err)
	for name, list := range map[string][][2]string{"sqlite": lite, "postgres": full} {
		found := map[string]bool{}
		for _, c := range list {
			found[c[0]+"."+c[1]] = true
			is, known := columns[c[0]]
			if !known || !slices.Contains(strings.Fields(is.nothing+" "+is.erased+" "+is.hash), c[1]) {
				t.Errorf("%s: nobody said what becomes of %s.%s when a recipient is erased", name, c[0], c[1])
			}
		}
		for table, is := range columns {
			if name == "sqlite" && (strings.HasPrefix(table, "hour") || table == "minutes") { // only Postgres counts ahead, and has that index
				continue
			}
			for _, column := range strings.Fields(is.nothing + " " + is.erased + " " + is.hash) {
				if !found[table+"."+column] {
					t.Errorf("%s: there is no %s.%s", name, table, column)
				}
			}
		}
	}
	said := map[string]string{"hour_domains": eraseHoursSQL}
	for _, p := range personal {
		said[p.table] += p.erase + p.forget
	}
	for table, is := range columns {
		if table == "erasures" {
			continue
		}
		for _, column := range strings.Fields(is.erased + " " + is.hash) {
			if !strings.Contains(said[table], column+" =") && !strings.Contains(said[table], "DELETE") {
				t.Errorf("nothing erases %s.%s", table, column)
			}
		}
	}
	for table := range said {
		if _, ok := columns[table]; !ok {
			t.Errorf("%s is erased, and nobody said what is in it", table)
		}
	}
}

// traces are what must not be found of a recipient.
var traces = map[string]string{
	"masked": "q•••@unusual.example", "reference": "order of Quentin", "network": "198.51.100.0/24", "holder": "s:quentin",
	"address": "quentin.unusual@unusual.example", "locale": "gsw-CH", "nonce": "nonce of quentin",
	"why it was suppressed": "Quentin called", "why that ended": "Quentin called again",
}

// leave has a recipient leave what they can, in every table and state.
func leave(t *testing.T, f *fixture, n int) {
	t.Helper()
	f.serial += 1000
	mark := func(in *Intent) {
		in.Send.To, in.Send.Reference, in.Send.IP, in.Send.Locale = traces["masked"], traces["reference"], traces["network"], traces["locale"]
		in.Verification.Holder, in.MinLife = traces["holder"], time.Hour
		in.Verification.Sealed, in.Verification.Nonce = []byte(traces["address"]), []byte(traces["nonce"])
	}
	for i := range 4 {
		begun := f.admit(t, f.intent(n, mark))
		switch i {
		case 1:
			f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Sent}, true)
		case 2:
			_, err := f.Postpone(t.Context(), Postponement{Held: Held{begun.Send.ID, 1}, After: time.Second})
			ok(t, err)
		case 3:
			f.finish(t, Outcome{Held: Held{begun.Send.ID, 1}, Status: Failed, Reason: ReasonRejected, Refund: true}, true)
		}
	}
	refusal := f.refusal(n, func(s *Send) {
		s.To, s.Reference, s.IP, s.Locale = traces["masked"], traces["reference"], traces["network"], traces["locale"]
	})
	ok(t, f.Refused(t.Context(), []Send{refusal}))
	h := recipient.Hash{15: byte(n)}
	_, _, err := f.Suppress(t.Context(), Suppression{
		ID: uuid.New(), Channel: recipient.Email, Address: h, Recipient: h, To: traces["masked"], Cause: Manual, Detail: traces["why it was suppressed"],
	}, time.Hour, nil)
	ok(t, err)
	_, err = f.Lift(t.Context(), Lifting{Channel: recipient.Email, Address: h, Why: traces["why that ended"]}, nil)
	ok(t, err)
	ok(t, f.RecordAct(t.Context(), f.act(func(a *Act) { a.Recipient, a.To = recipient.Hash{15: byte(n)}, traces["masked"] })))
}

// found names the traces that a dump or a file has; of binary columns also as the dump writes them.
func foundIn(content []byte) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(traces)) {
		hex := []byte(strings.ToLower(show([]byte(traces[name]))))
		if bytes.Contains(content, []byte(traces[name])) || bytes.Contains(content, hex) {
			names = append(names, name)
		}
	}
	return names
}

func TestPostgresKeepsNoTrace(t *testing.T) {
	server := parts.Postgres(t)
	url := newDatabase(t, server)
	f := newFixture(openTest(t, url, serverClock))
	leave(t, f, 77)
	equal(t, "before", len(foundIn([]byte(server.Dump(t, url)))), len(traces)) // the search finds
	ok(t, f.Erase(t.Context(), recipient.Hash{15: 77}, time.Millisecond, f.act()))
	dump := server.Dump(t, url)
	equal(t, "traces", foundIn([]byte(dump)), nil)
	hash := `\\x0000000000000000000000000000004d`
	equal(t, "the hash counts on", strings.Contains(dump, hash), true)
	eventually(t, func() bool { n, err := f.Forget(t.Context()); ok(t, err); return n == 1 })
	equal(t, "the hash", strings.Contains(server.Dump(t, url), hash), false)
}

// The file itself and what is beside it, not only what its rows say.
func TestSQLiteKeepsNoTrace(t *testing.T) {
	clock, path := &testClock{at: epoch}, tempFile(t)
	f := newFixture(openSQLite(t, path, clock)).clocked(epoch, clock.step)
	for n := range 40 {
		f.admit(t, f.intent(n)) // others, before and after, so that rows move about on their pages
		if n == 20 {
			leave(t, f, 77)
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
	equal(t, "before", len(foundIn(files())), len(traces))
	ok(t, f.Erase(t.Context(), recipient.Hash{15: 77}, time.Hour, f.act()))
	equal(t, "traces", foundIn(files()), nil)
	hash := append(make([]byte, 15), 77)
	equal(t, "the hash counts on", bytes.Contains(files(), hash), true)
	f.pass(time.Hour)
	n, err := f.Forget(t.Context())
	ok(t, err)
	equal(t, "forgotten", n, 1)
	equal(t, "the hash", bytes.Contains(files(), hash), false)
}
