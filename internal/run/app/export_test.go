package app

// NewWithClock is New on a machine with another clock.
var NewWithClock = newWithClock
