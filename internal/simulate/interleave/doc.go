// Package interleave explores every order in which two sends and their checks can meet the faults that sendcode is to survive: a
// flush of the limiter, a kill of a replica, a commit that fails or whose answer is lost, a mail server that refuses or breaks
// off. It is a model checker with explicit states, and has tests only. It proves nothing about the code that it does not call, but
// no random schedule is as thorough about the order of calls.
//
// A state is a plain value: the recipient's bucket in the limiter, the rows of the log, where each request, check and flight of two
// replicas is, the mails that are out, and the faults that are left. A step is one call that another process can notice: of the limiter,
// the log or the mail server. What a process does by itself between two calls belongs to the first of them. Decisions are made by the real
// functions (gate.Decide, quota.Memory, quota.Evaluate, verification.StateOf); the comment of each other step names the functions that it
// stands for, and has to be kept true by hand.
//
// Time is a step as well, of half a window. That is longer than a lease, than MissingFor and than the timeouts of a request, so
// no request is between two calls when time passes. Of a process that is killed, each request, check and flight may have one call
// on its way, which arrives later or never: that of a flight after any time, as from a process that was frozen.
//
// Not in the model: a limiter that is away, clocks that differ, lockouts, several rules, text messages, a second recipient, a mail
// server that takes a mail later, repeated requests.
//
// One order is known to break a property: see lostTombstones. It is let pass, so that the search goes on behind it.
//
// The search visits each state once, depth first. Where a property breaks, a second search, breadth first, finds a shortest path
// to it, and prints that as sentences. TestBrokenModels shows that each property can break.
package interleave
