package app

import (
	"context"
	"testing"
	"time"

	"sendcode/internal/servertest"
	"sendcode/internal/store"
)

// mostAllocations is what a whole send may take: the request over a connection, both gates, the mail, its outcome and the answer. The
// database's driver is not among it. Raise it only with a reason that is worth a garbage collector's time at each send.
const mostAllocations = 235

// A send takes no more allocations than it did: each costs twice, when it is made and when it is collected.
func TestAllocationsOfASend(t *testing.T) {
	servertest.SkipUnderRace(t)
	sink := startSink(t)
	a := benchApp(t, map[string]string{"SENDCODE_SMTP_URL": sink.url()})
	log := &emptyLog{Store: a.log, finished: make(chan struct{}, 1)}
	a.codes.Store, a.outbox.Store = log, log
	serveUntilEnd(t, a)
	caller := dialCaller(t, a.Addr())
	defer caller.conn.Close()
	n := 0
	send := func() {
		n++
		caller.send(n)
		sink.await(n)
		<-log.finished
	}
	for range 200 {
		send()
	}
	if got := testing.AllocsPerRun(500, send); got > mostAllocations {
		t.Errorf("a send takes %v allocations, want at most %d", got, mostAllocations)
	} else {
		t.Logf("a send takes %v allocations, of at most %d", got, mostAllocations)
	}
}

// emptyLog admits every send as the log does where it has nothing of its recipient, and writes nothing.
type emptyLog struct {
	store.Store
	finished chan struct{}
}

// Begin implements verification.Store.
func (l *emptyLog) Begin(_ context.Context, in store.Intent) (store.Begun, error) {
	in, err := store.Checked(in)
	now, v, s := time.Now(), in.Verification, in.Send
	v.CreatedAt, v.ExpiresAt, v.Sends = now, now.Add(in.TTL), 1
	s.LoggedAt, s.Status, s.Number, s.Attempt, s.VerificationID = now, store.Sending, 1, 1, v.ID
	return store.Begun{Admitted: true, Verification: v, Send: s, At: in.Send.TakenAt, Now: now, Clock: store.LogClock}, err
}

// Finish implements outbox.Store.
func (l *emptyLog) Finish(context.Context, store.Outcome) (bool, error) {
	l.finished <- struct{}{}
	return true, nil
}
