// Package demo plays a plausible week: people who ask for codes and enter them, mistype, ask too often, have no mailbox or guess,
// a slow mail server, an attack from one network, and what administrators do about it. It is what `sendcode demo` shows.
//
// Everything goes the way of real requests: package app gives it the use cases, the outbox, both gates and a log in SQLite, all on the
// [Clock] of the week. Only mail servers and carriers are played ([Post]). The plan follows from a seed, so a week is the same each time.
package demo
