// Package simulate runs whole worlds by seed: two or three replicas of the service (use cases, outbox, jobs, webhooks, HTTP handlers)
// over one log and one limiter, with the people and back ends that use them, the strangers that misuse them, and what may go wrong
// around them. Time is virtual (testing/synctest), so hours pass in milliseconds.
//
// A seed gives a Plan: what happens from outside, and when. It also gives each call of the log, the limiter, a mail server, a carrier
// and a webhook a latency of its own, in nanoseconds. No two calls go on at the same instant, so the seed alone decides their order,
// and one seed gives one course of events. The log is SQLite in memory; a call may also wait between its statements and its commit.
//
// After the plan everything is repaired, what is left is given time to end, and oracles compare what was answered, delivered, logged
// and told with what sendcode promises (docs/PROMISES.md). The plan of a world that broke a promise is shrunk to the events that
// matter and told in sentences. The way of working is that of deterministic simulation testing, as FoundationDB describes it
// (Zhou et al., SIGMOD 2021, section 4).
//
// Where a promise ends, so does its oracle:
//   - After a step of the log's clock admission is held to that clock, and waits are not held. A message may come twice, as after a crash.
//   - Where the log was slow when an earlier send began, a caller that waited as told may be refused once more, for 4 s; that wait is held.
//   - For a tick after limiter and log are back, a look may lack sends that the log let in alone; for a lease more where their process
//     did not hear that the row was written; where it died, until the recipient's next send.
//   - After a crash, or a failover that lost writes, the limiter may count a place too many, and never one too few.
//   - A call that the limiter makes after a stall counts from then, so a place may come free as much later.
//   - The address of an event's row stays until its recipient is erased, and an event whose receiver failed for minutes may still wait.
package simulate
