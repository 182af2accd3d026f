package audit

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// contract is what every database must do. Each case gets an empty log.
var contract = []struct {
	name string
	run  func(t *testing.T, f *fixture)
}{
	{"begin/writes what it was asked to write", beginWrites},
	{"begin/refusal leaves nothing behind", refusalLeavesNothing},
	{"begin/default policy to the microsecond", defaultPolicy},
	{"begin/ages on one clock only", agesOnOneClock},
	{"begin/log clock alone", logClockAlone},
	{"begin/calendar rule on the limiter's clock", calendarOnTheLimitersClock},
	{"begin/calendar rule on the log's clock", calendarOnTheLogsClock},
	{"begin/calendar rule after a while", calendarAfterAWhile},
	{"begin/clocks that go back", clocksThatGoBack},
	{"begin/limiter once far ahead", limiterOnceFarAhead},
	{"begin/limiter's clock set ahead", limiterSetAhead},
	{"begin/slow way to the log", slowWayToTheLog},
	{"begin/limiter ahead over the turn of a day", limiterAheadOverTheTurn},
	{"begin/limiter always far ahead", limiterAlwaysAhead},
	{"begin/whose sends count", whoseSendsCount},
	{"begin/history explains the refusal", historyExplains},
	{"begin/no rules admit all", noRules},
	{"begin/repeated with the same ID", repeatedBegin},
	{"begin/bad intents", badIntents},
	{"begin/rejections of a recipient", rejectionsOfARecipient},
	{"begin/rejections, and whose count", whoseRejectionsCount},
	{"begin/rejections, and what is none", whatIsNoRejection},
	{"begin/rejections and the clock", rejectionsAndTheClock},
	{"begin/60 callers, limit 7", sixtyCallers},
	{"begin/20 recipients mixed, limit 7", mixedRecipients},
	{"join/by ID", joinByID},
	{"join/by holder", joinByHolder},
	{"join/newest of several", joinNewest},
	{"join/opens when none", joinOpens},
	{"check/attempts", attempts},
	{"check/100 guesses at once", guessesAtOnce},
	{"check/approve", approve},
	{"check/50 approvals at once", approvalsAtOnce},
	{"check/failures of a recipient", failures},
	{"check/failures and what does not count", failuresApart},
	{"check/failures of each kind of caller", failuresByKind},
	{"check/failures after the rules", failuresAfterTheRules},
	{"check/failures in a row", failuresInARow},
	{"check/failures, 100 tries at once", failuresAtOnce},
	{"check/cancel", cancels},
	{"check/cancel and approve at once", cancelOrApprove},
	{"check/newest of a holder", newestOfHolder},
	{"claim/held, busy and done", claims},
	{"claim/taken over and given up", claimsGivenUp},
	{"claim/remembered for its life", claimsForgotten},
	{"claim/50 at once", claimsAtOnce},
	{"claim/a refusal is no send", claimOfRefusal},
	{"claim/bad claims", badClaims},
	{"flight/finish", finish},
	{"flight/ends all at once", endTogether},
	{"flight/postpone and take over", postponeAndTakeOver},
	{"flight/lease", lease},
	{"flight/longest overdue first", overdueFirst},
	{"flight/each channel apart", eachChannelApart},
	{"flight/each row once to two replicas", takenOnce},
	{"flight/stale attempt changes nothing", staleAttempt},
	{"flight/refund", refund},
	{"flight/no refund in doubt", noRefundInDoubt},
	{"flight/bad outcomes", badOutcomes},
	{"refused/added up", refusalsAddUp},
	{"refused/share a row", refusalsShareARow}, {"refused/a shared row names no recipient", sharedRowsNameNobody},
	{"refused/never touches a send", refusalTouchesNoSend},
	{"refused/many at once", manyRefusals},
	{"read/verification", readVerification},
	{"read/filters", filters},
	{"read/pages with inserts in between", pages},
	{"read/story", story},
	{"read/support reference", referenced},
	{"read/counting", countingSends},
	{"read/history", bucketHistory},
	{"read/rejected", readRejected},
	{"read/crowds", crowds},
	{"read/by ID", sendsByID},
	{"read/latest of many", latestOfMany},
	{"read/hostile texts", hostileTexts},
	{"acts/added and listed", acts},
	{"acts/once by ID", actsOnce},
	{"acts/bad acts", badActs},
	{"acts/cancel", cancelsBy},
	{"suppressed/an address", suppressed},
	{"suppressed/for an app", suppressedForAnApp},
	{"suppressed/taken over", suppressedTakenOver},
	{"suppressed/by a bounce", bounceSuppresses},
	{"suppressed/by bounces together", bouncesTogether},
	{"suppressed/list and lift", suppressionList},
	{"suppressed/bad requests", badSuppressions},
	{"suppressed/acts", suppressionActs},
	{"suppressed/what was not tried is a failure", untriedAreFailures},
	{"events/a send that ends", eventOfASend},
	{"events/an approval", eventOfAnApproval},
	{"events/nobody is told", nobodyIsTold},
	{"events/with others that end", eventsAmongOthers},
	{"events/leases and attempts", eventLeases},
	{"events/a share for each app", eventShares},
	{"events/each once to two replicas", eventsOnce},
	{"events/forgotten and given up", eventsForgotten},
	{"events/pages", eventPages},
	{"events/bad requests", badEvents},
	{"accounts/added and changed", accounts},
	{"accounts/changed at once", accountsAtOnce},
	{"accounts/added at once", accountsAddedAtOnce},
	{"accounts/sessions", sessions},
	{"accounts/second factors", secondFactors},
	{"accounts/second factors at once", secondFactorsAtOnce},
	{"forgive/sends, rejections and failed checks", forgives},
	{"forgive/nothing else", forgivesNothingElse},
	{"forgive/what is under way", forgivesUnderWay},
	{"erase/one and nobody else", erases},
	{"erase/frees no quota", eraseFreesNothing},
	{"erase/what is under way", erasesUnderWay},
	{"erase/forgotten when its time has come", forgets},
	{"erase/the forgotten are not one person", forgottenApart},
	{"erase/a suppression holds", erasedAndSuppressed},
	{"erase/bad calls", badErasures},
	{"stats/of a time", statistics},
	{"stats/counted ahead", countedAhead},
	{"stats/what carriers say was lost", lostTexts},
	{"expire/what is old and done with", expires},
	{"expire/with its verification", expiresWhole},
	{"expire/two at once", expiresAtOnce},
	{"spending/together or not at all", spendTogether},
	{"spending/periods", spendPeriods},
	{"spending/in parallel", spendInParallel},
	{"spending/bad charges", badCharges},
	{"embargo/until its end", embargoes},
	{"heard/of a send", providerEvents},
	{"heard/and suppressed", eventsSuppress},
	{"heard/many at once", eventsAtOnce},
	{"heard/and let go of", eventsExpire},
	{"receipts/in whatever order", receipts},
	{"receipts/awaited", awaitsReceipts},
	{"receipts/asked for by one", inquiriesShared},
	{"watch/pauses a prefix", watchPauses},
	{"watch/counts what went out", watchCounts},
	{"watch/slides", watchSlides},
	{"watch/knows what is usual", watchKnowsWhatIsUsual},
	{"watch/grows stricter", watchGrowsStricter},
	{"watch/lifted", watchLifted},
	{"watch/exempts", watchExempts},
	{"watch/at once", watchedAtOnce},
	{"watch/list", watchList},
	{"watch/story", watchStory},
	{"turn/one at a time", takesTurns},
	{"receipts/before the outcome", receiptFirst},
	{"receipts/for nothing", receiptsForNothing},
	{"partitions/drifted IDs", driftedIDs},
	{"partitions/drifted refusals", driftedRefusals},
	{"partitions/a window over months", windowOverMonths},
	{"partitions/rejections over months", rejectedOverMonths},
	{"partitions/pages over months", pagesOverMonths},
	{"partitions/an idle replica", idleReplica},
	{"partitions/extent", extents},
	{"end/closed and canceled", closedAndCanceled},
}

func runContract(t *testing.T, open func(t *testing.T) *fixture) {
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, open(t))
		})
	}
}

// epoch is where the log's clock starts in every test: not on a whole second.
var epoch = time.Date(2030, 3, 1, 12, 0, 0, 123457000, time.UTC)

type testClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *testClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// fixture is a log under test with its clock, and a second one on the same rows.
type fixture struct {
	Store
	db      database
	replica Store
	other   database // of the replica
	step    func(time.Duration)
	now     time.Time // of the log's clock, as tests follow it with pass
	serial  uint64
}

// database is Postgres or SQLite.
type database interface{ Store() Store }

// newFixture is a fixture without a replica, on the present.
func newFixture(db database) *fixture { return &fixture{Store: db.Store(), db: db} }

// reopen goes on with another database.
func (f *fixture) reopen(db database) { f.Store, f.db = db.Store(), db }

// beside gives the fixture a replica.
func (f *fixture) beside(other database) *fixture {
	f.replica, f.other = other.Store(), other
	return f
}

// clocked gives the fixture its clock: where it is, and how it is moved.
func (f *fixture) clocked(now time.Time, step func(time.Duration)) *fixture {
	f.now, f.step = now, step
	return f
}

// numbered gives the fixture numbers for IDs of its own.
func (f *fixture) numbered(from uint64) *fixture {
	f.serial = from
	return f
}

// pass lets time go by on the log's clock; d may be negative.
func (f *fixture) pass(d time.Duration) {
	f.step(d)
	f.now = f.now.Add(d)
}

var defaultRules = []quota.Rule{
	{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
	{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
	{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
}

func rule(limit int, window time.Duration) []quota.Rule {
	return []quota.Rule{{Name: "rule", Scope: quota.Recipient, Limit: limit, Window: window}}
}

// intent is one of recipient n, taken by no limiter, with no rule but room for changes.
func (f *fixture) intent(n int, changes ...func(*Intent)) Intent {
	id := f.id()
	in := Intent{
		Send: Send{
			ID: id, App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: recipient.Hash{15: byte(n), 14: byte(n >> 8)},
			To: "a•••@example.com", Locale: "en", Reference: "order 7", IP: "192.0.2.0/24",
		},
		Purposes: []string{"login", "signup"}, Life: 10 * time.Minute, MinLife: 2 * time.Minute, Lease: 8 * time.Second,
		Verification: Verification{
			ID: "v-" + id.String(), Sealed: []byte{0, 1, 255}, Nonce: []byte("0123456789abcdef"), KeyID: "k1", CodeLength: 6, Alphabet: "digits", MaxAttempts: 5,
		},
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

// id is one of the log's present, greater than those before.
func (f *fixture) id() uuid.UUID {
	f.serial++
	now := f.now
	if now.IsZero() {
		now = time.Now()
	}
	id := lowestID(now)
	id[6], id[8] = 0x70, 0x80
	binary.BigEndian.PutUint32(id[12:], uint32(f.serial))
	return id
}

func withRules(rules []quota.Rule) func(*Intent) { return func(in *Intent) { in.Rules = rules } }

func takenAt(clock string, at time.Time) func(*Intent) {
	return func(in *Intent) { in.Send.Clock, in.Send.TakenAt = clock, at }
}

func (f *fixture) begin(t *testing.T, in Intent) Begun {
	t.Helper()
	begun, err := f.Begin(t.Context(), in)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return begun
}

// admit begins what must be let in.
func (f *fixture) admit(t *testing.T, in Intent) Begun {
	t.Helper()
	begun := f.begin(t, in)
	if !begun.Admitted {
		t.Fatalf("refused, wanted admitted: %s", show(begun))
	}
	return begun
}

// refuse begins what must not be let in.
func (f *fixture) refuse(t *testing.T, in Intent) Begun {
	t.Helper()
	begun := f.begin(t, in)
	if begun.Admitted {
		t.Fatal("admitted, wanted refused")
	}
	return begun
}

func (f *fixture) all(t *testing.T) []Send {
	t.Helper()
	var all []Send
	filter := Filter{Limit: maxPage}
	for {
		page, err := f.Sends(t.Context(), filter)
		ok(t, err)
		all = append(all, page...)
		if len(page) < maxPage {
			return all
		}
		last := page[len(page)-1]
		filter.Before = &Mark{At: last.LoggedAt, ID: last.ID}
	}
}

func (f *fixture) row(t *testing.T, id uuid.UUID) Send {
	t.Helper()
	story, err := f.Story(t.Context(), id)
	ok(t, err)
	return story.Send
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, wanted %v", err, want)
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if g, w := show(got), show(want); g != w {
		t.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func ids(rows []Send) []uuid.UUID {
	var list []uuid.UUID
	for _, r := range rows {
		list = append(list, r.ID)
	}
	return list
}

func reversed[T any](list []T) []T {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// together calls f n times at once and waits.
func together(n int, f func(i int)) {
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() { start.Wait(); f(i) })
	}
	start.Done()
	done.Wait()
}

func tempFile(t *testing.T) string { return filepath.Join(t.TempDir(), "log.db") }
