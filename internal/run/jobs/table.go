package jobs

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/store"
)

// Store has the database's methods that the jobs call. Implementation: sqldb.DB.
type Store interface {
	DeleteAged(ctx context.Context, age time.Duration, limit int) (store.DeletedRows, error)
	CountHours(ctx context.Context, life, keep time.Duration, limit int) (int, error)
	EnsurePartitions(ctx context.Context) (time.Time, error)
	ForgetDueErased(ctx context.Context) (int, error)
	AddExpiryEvents(ctx context.Context, apps []string, from store.ExpiryCursor, limit int,
		event func(store.Verification) (store.NewEvent, error)) (to store.ExpiryCursor, read int, err error)
	AcquireJobLease(ctx context.Context, name string, lasts time.Duration) (bool, error)
	PausePrefixes(ctx context.Context, w store.PrefixWatch) ([]store.PrefixPause, error)
	JudgeConversions(ctx context.Context, w store.ConversionWatch,
		event func(app, kind string) (store.NewEvent, error)) (begun, ended []store.LowConversion, err error)
	LowConversions(ctx context.Context) ([]store.LowConversion, error)
	SettleSuppressions(ctx context.Context) error
	LiftedBursts(ctx context.Context) ([]store.Burst, error)
}

// Observer counts runs of jobs and automatic pauses. It must not block.
type Observer interface {
	JobRan(job string, failed bool)
	PrefixPaused(app, country string) // text messages to a prefix of the country were paused
}

// Maintenance has the jobs that maintain the database.
type Maintenance struct {
	Policy *policy.CurrentSet
	Now    func() time.Time // an estimate of the database's clock, which can jump
	Events webhook.Events
	Store  Store
	Watch  store.PrefixWatch // settings of automatic pauses of prefixes; zero: none
	Tick   time.Duration     // between two parts of a job's work; 0: DefaultTick
	// AskStrangers requires a human check of strangers for these apps, and for no others.
	AskStrangers func(apps []string)
	Observer     Observer // nil: nothing is counted
	Logger       *slog.Logger

	deletedRows  int                // rows deleted since the last log line about deletions
	alarmedAt    time.Time          // last alarm about partitions
	expiryCursor store.ExpiryCursor // where the next run of addExpiryEvents continues
	bursts       []store.Burst      // bursts that LiftedBursts returned to the last run of settleSuppressions
}

// These are the intervals, timeouts and leases of the jobs, and the most work of one run. A run is
// short, so that no other work waits for it.
const (
	RetentionEvery    = 10 * time.Minute // while no old row is left
	rollUpEvery       = time.Minute      // while no hour is left to count
	partitionsEvery   = 10 * time.Minute
	erasureEvery      = time.Hour
	expiryEventsEvery = 10 * time.Second
	burstsEvery       = 10 * time.Second
	PrefixWatchEvery  = time.Minute // one replica runs it for all
	conversionEvery   = time.Minute // one replica runs it for all
	// Each replica reads this often which apps require a human check of strangers.
	lowConversionsEvery = 10 * time.Second

	RetentionRowsPerRun    = 2000 // the most sends; DeleteAged deletes rows of other tables in proportion
	expiryEventsPerRun     = 500
	hoursPerRun            = 4
	minPartitionWeeksAhead = 2 // with fewer weeks of partitions an alarm is logged
	partitionAlarmEvery    = 10 * time.Minute
	prefixWatchTimeout     = 30 * time.Second
	conversionTimeout      = 30 * time.Second
	eraseTimeout           = 90 * time.Second // a recipient may have many rows
	prefixWatchLease       = "watch"
	conversionLease        = "conversion"
	forever                = 100 * 365 * 24 * time.Hour
)

// Jobs returns the jobs that maintain the database. The watch on prefixes is one of them only if
// Watch is set.
func (m *Maintenance) Jobs() []Job {
	table := []Job{
		{Name: "partitions", Every: partitionsEvery, Run: m.makePartitions},
		{Name: "retention", Every: RetentionEvery, Run: m.deleteAged},
		{Name: "roll-up", Every: rollUpEvery, Run: m.countPastHours},
		{Name: "expiries", Every: expiryEventsEvery, Run: m.addExpiryEvents},
		{Name: "erasure", Every: erasureEvery, Run: m.deleteErasedHashes},
		{Name: "bursts", Every: burstsEvery, Run: m.settleSuppressions},
		{Name: "conversion", Every: conversionEvery, Run: m.judgeConversions},
		{Name: "low conversion", Every: lowConversionsEvery, Run: m.readLowConversions},
	}
	if m.Watch.MinSends > 0 {
		table = append(table, Job{Name: "watch", Every: PrefixWatchEvery, Run: m.pausePrefixes})
	}
	return table
}

// deleteAged deletes rows and partitions that are older than the retention. One run deletes up to
// RetentionRowsPerRun sends, rows of other tables in proportion, and at most one partition. If more
// is true, old rows may be left.
func (m *Maintenance) deleteAged(ctx context.Context) (more bool, err error) {
	gone, err := m.Store.DeleteAged(ctx, m.Policy.Get().Retention, RetentionRowsPerRun)
	m.deletedRows += gone.Rows
	if gone.Partition != "" {
		m.Logger.Info("expired partition dropped", "partition", gone.Partition)
	}
	if err != nil || gone.More {
		return err == nil, err
	}
	if m.deletedRows > 0 {
		m.Logger.Info("expired rows deleted", "count", m.deletedRows)
		m.deletedRows = 0
	}
	return false, nil
}

// addExpiryEvents writes expiry events for some expired codes. It writes them only for apps that
// subscribe to this type of event. If more is true, further codes may need an event. Every replica
// runs this job. The database stores only one event for each code.
func (m *Maintenance) addExpiryEvents(ctx context.Context) (more bool, err error) {
	apps := m.Policy.Get().Subscriptions.To(store.VerificationExpired)
	if len(apps) == 0 {
		return false, nil
	}
	to, read, err := m.Store.AddExpiryEvents(ctx, apps, m.expiryCursor, expiryEventsPerRun,
		func(v store.Verification) (store.NewEvent, error) {
			return m.Events.NewEvent(v, store.VerificationExpired)
		})
	if err != nil {
		return false, err
	}
	m.expiryCursor = to
	if read > 0 {
		m.Events.WakeWebhooks()
	}
	return read == expiryEventsPerRun, nil
}

// countPastHours counts the rows of some past hours and stores the counts for statistics. If more
// is true, further hours may be uncounted. Statistics read the rows of an hour that is not counted
// yet.
func (m *Maintenance) countPastHours(ctx context.Context) (more bool, err error) {
	set := m.Policy.Get()
	keep := set.Retention
	if keep == 0 {
		keep = forever
	}
	n, err := m.Store.CountHours(ctx, set.LongestCodeLife(), keep, hoursPerRun)
	return n >= hoursPerRun, err
}

// makePartitions creates partitions for the coming weeks. If there are still partitions for fewer
// than minPartitionWeeksAhead weeks, makePartitions logs an alarm, at most one every
// partitionAlarmEvery. In this case it runs again at every tick.
func (m *Maintenance) makePartitions(ctx context.Context) (more bool, err error) {
	now := m.Now()
	until, err := m.Store.EnsurePartitions(ctx)
	if err == nil && (until.IsZero() || store.PartitionWeeksAhead(until, now) >= minPartitionWeeksAhead) {
		return false, nil
	}
	if ctx.Err() == nil && now.Sub(m.alarmedAt) >= partitionAlarmEvery {
		m.alarmedAt = now
		m.Logger.Error("no partition for coming weeks: sends will fail", "until", until, "error", err,
			logs.SeeDatabaseSpace)
	}
	return true, nil
}

// deleteErasedHashes deletes the hashes of erased recipients that no rule needs any longer. If more
// is true, such hashes may be left.
func (m *Maintenance) deleteErasedHashes(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	n, err := m.Store.ForgetDueErased(ctx)
	if n > 0 {
		m.Logger.Info("hashes of erased recipients deleted", "count", n)
	}
	return n > 0 && err == nil, err
}

// settleSuppressions lifts the suppressions that turn out to be wrong. These are suppressions that
// a later row disproves, and the suppressions of a burst. A burst means that one mail server
// refused many recipients with the same words, so the fault may be the server's. Each process logs
// a burst once, when the burst appears, if a recipient of the burst had entered a code within 90
// days. The result more is always false.
func (m *Maintenance) settleSuppressions(ctx context.Context) (more bool, err error) {
	if err := m.Store.SettleSuppressions(ctx); err != nil {
		return false, err
	}
	bursts, err := m.Store.LiftedBursts(ctx)
	if err != nil {
		return false, err
	}
	for _, b := range bursts {
		if !slices.ContainsFunc(m.bursts, func(x store.Burst) bool { return x.Server == b.Server && x.Words == b.Words }) {
			m.Logger.Error("burst of suppressions lifted: the server may refuse us and not the addresses", "server", b.Server, "words", b.Words,
				"recipients", b.Recipients, logs.SeeBursts)
		}
	}
	m.bursts = bursts
	return false, nil
}

// pausePrefixes pauses text messages to prefixes of phone numbers. It pauses a prefix if many codes
// are sent to its numbers, but few of these codes are entered, which is a sign of fraud. A lease
// ensures that one replica does this work for all replicas.
func (m *Maintenance) pausePrefixes(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, prefixWatchTimeout)
	defer cancel()
	mine, err := m.acquireLease(ctx, prefixWatchLease, PrefixWatchEvery)
	if err != nil || !mine {
		return false, err
	}
	for _, w := range m.watches() {
		started, err := m.Store.PausePrefixes(ctx, w)
		if err != nil {
			return false, err
		}
		for _, p := range started {
			m.reportPause(p)
		}
	}
	return false, nil
}

// acquireLease returns true for one replica in each interval.
func (m *Maintenance) acquireLease(ctx context.Context, name string, every time.Duration) (bool, error) {
	return m.Store.AcquireJobLease(ctx, name, every-cmp.Or(m.Tick, DefaultTick))
}

// judgeConversions finds the apps that send many codes to strangers, hardly any of which are
// entered, as when a bot requests them. It logs an error for each such app, so that an operator
// looks. A lease ensures that one replica does this work for all replicas.
func (m *Maintenance) judgeConversions(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, conversionTimeout)
	defer cancel()
	mine, err := m.acquireLease(ctx, conversionLease, conversionEvery)
	if err != nil || !mine {
		return false, err
	}
	begun, ended, err := m.Store.JudgeConversions(ctx, store.DefaultConversionWatch, func(app, kind string) (store.NewEvent, error) {
		return m.Events.NewAppEvent(app, kind)
	})
	for _, l := range begun {
		m.Logger.Error("few codes of strangers are entered: strangers must pass a human check, where one can be shown",
			"app", l.App, "sends", l.Sends, "approved", l.Approved, logs.SeeAttack)
	}
	for _, l := range ended {
		m.Logger.Info("codes of strangers are entered again, or few are sent: no human check is asked for this reason any more",
			"app", l.App, "sends", l.Sends, "approved", l.Approved, "since", l.Since.Format(time.RFC3339))
	}
	if len(begun)+len(ended) > 0 {
		m.Events.WakeWebhooks()
	}
	return false, err
}

// readLowConversions reads the apps for which this replica must require a human check of strangers.
// While the database does not answer, the requirements stay as they are.
func (m *Maintenance) readLowConversions(ctx context.Context) (more bool, err error) {
	list, err := m.Store.LowConversions(ctx)
	if err != nil {
		return false, err
	}
	apps := []string{}
	for _, l := range list {
		apps = append(apps, l.App)
	}
	m.AskStrangers(apps)
	return false, nil
}

// watches returns the settings with which pausePrefixes compares sent and entered codes: one set
// for each app that has its own settings, and one for all other apps. A reload may have made codes
// live longer than at the start.
func (m *Maintenance) watches() (all []store.PrefixWatch) {
	set, others := m.Policy.Get(), m.Watch
	for _, p := range set.Purposes {
		others.TTL = max(others.TTL, p.Life(recipient.SMS))
	}
	apps := set.Apps
	for _, name := range slices.Sorted(maps.Keys(apps)) {
		if own := apps[name].Watch; own.MinSends > 0 {
			own.TTL, own.Exempt, own.Apps, own.Only = others.TTL, m.Watch.Exempt, []string{name}, true
			all, others.Apps = append(all, own), append(others.Apps, name)
		}
	}
	return append(all, others)
}

// reportPause counts a new pause. It also logs an error, so that an operator checks the pause.
func (m *Maintenance) reportPause(p store.PrefixPause) {
	args := []any{
		"app", p.App, "prefix", p.Prefix, "country", p.Country, "class", p.Class.Name(), "sends", p.Sends, "approved",
		p.Approved, "until", p.Until.Format(time.RFC3339),
		"pause", p.ID,
	}
	if p.UsualPercent >= 0 {
		args = append(args, "usual_percent", p.UsualPercent)
	}
	m.Logger.Error("text messages to prefix paused: many codes sent, few approved",
		append(args, logs.SeeTextMessages)...)
	if m.Observer != nil {
		m.Observer.PrefixPaused(p.App, p.Country)
	}
}
