package verification

import (
	"cmp"
	"context"
	"sync"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/limit/admission"
	"sendcode/internal/store"
)

// Package admission bounds the requests that are under way. A class of callers has a place as long
// as package admission would admit a request of this class. These checks refuse a send before the
// gates decide about it, in this order:
//
//	SendsOverloadError   no class has a place; before the request's key and body are read
//	refuseIfOverloaded   the request's class has no place; before it is parsed or waits
//	Bulkhead.Acquire     the recipient has too many sends, and no slot becomes free in time
//	entrance.enter       the class has no place; it was unknown before, or the last place was taken meanwhile
//	refuseIfLate         the send could be decided in time, but the message would go out too late
//
// The first two refuse nothing that enter would admit. They only save work.

type entrance struct {
	*admission.Limiter
	name   string // in metrics and log lines
	alarms *alarms
}

// Error of enter: *admission.OverloadedError.
func (e entrance) enter(class store.Class) (leave func(decided bool), err error) {
	leave, err = e.Enter(class.IsStranger())
	return leave, e.counted(err)
}

// refuseIfFull returns the *admission.OverloadedError that enter would return now, or nil. class is
// a Class constant of package admission.
func (e entrance) refuseIfFull(class string) error { return e.counted(e.RefuseIfFull(class)) }

func (e entrance) counted(err error) error {
	if err != nil {
		e.alarms.overload.count(e.name)
		e.alarms.LogAlarms(context.Background())
	}
	return err
}

// AdmissionStats returns how full the admissions of sends and of checks are, by their names.
func (s *Service) AdmissionStats() map[string]admission.Stats {
	sends, checks := s.sendService.places, s.checkService.places
	return map[string]admission.Stats{sends.name: sends.Stats(), checks.name: checks.Stats()}
}

// SendsOverloadError returns an *admission.OverloadedError, and counts a refusal, if Send would
// refuse any request now. It is called before a request is read, because reading costs more than
// refusing.
func (s *sendService) SendsOverloadError() error { return s.places.refuseIfFull(admission.ClassUnread) }

// ChecksOverloadError is SendsOverloadError for Check and CheckByRecipient.
func (s *checkService) ChecksOverloadError() error {
	return s.places.refuseIfFull(admission.ClassUnread)
}

// refuseIfOverloaded returns the *admission.OverloadedError that Send would return now for a
// request of this class, or nil. It also returns nil while the class is unknown: the caller may
// prove to be a known browser.
func (s *sendService) refuseIfOverloaded(ask Request) error {
	if ask.Kind == Browser && (ask.Resend != "" || len(ask.KnownTokens) > 0) {
		return nil
	}
	return s.places.refuseIfFull(admission.ClassOf(ask.Caller.classWithoutTokens().IsStranger()))
}

// A message may wait for a part of its code's life: the life divided by lateForStrangers or
// lateForAll. If it would wait longer, the send is refused: a message with an expired code is
// useless, but its send would count in the recipient's rules.
const (
	lateForStrangers = 5 // the divisor for all classes but SecretKeyClass, and for all requests while no message goes out
	lateForAll       = 2 // the divisor for SecretKeyClass
	lateMargin       = 4 // unless stalled, 1/lateMargin of the wait is added: queues and replicas share a server's pace unevenly
	minLateRetry     = 5 * time.Second
	maxLateRetry     = time.Minute
)

type lateRefusals struct {
	mu    sync.Mutex
	count map[store.Queue]int // Queue.Strangers: all classes but SecretKeyClass
	last  map[recipient.Channel]time.Time
	// network has the last refusal of a class other than SecretKeyClass.
	network map[recipient.Channel]networkRefusal
}

type networkRefusal struct {
	network string
	at      time.Time
}

// noteNetwork notes a refusal of a network. It returns true if the network is unknown, or if
// another network was refused within the last minute. Otherwise the reason may be the network's own
// messages.
func (l *lateRefusals) noteNetwork(ch recipient.Channel, network string, now time.Time) bool {
	before := l.network[ch]
	l.network[ch] = networkRefusal{network, now}
	return network == "" || before.network != network && now.Sub(before.at) < time.Minute
}

// refuseIfLate returns an *admission.OverloadedError if the send's message would go out too late. A
// known browser's message may wait no longer than a stranger's: the browser is known for one
// recipient only, but the messages of many recipients share the queue. A send to a test recipient
// is not refused. A repeated request is not refused if the first request with its Idempotency-Key
// may have written the send.
func (s *sendService) refuseIfLate(send claimedSend) error {
	ch, class := send.to.Channel(), send.plan.Class
	maxWait := cmp.Or(send.TTL, send.plan.Purpose.Life(ch))
	if v := send.resendOf; v.isJoined(send.plan.Purpose.Life(ch)) {
		maxWait = v.ExpiresAt.Sub(v.readAt)
	}
	wait, stalled := s.Outbox.ExpectedWait(store.Queue{Channel: ch, Strangers: class.IsStranger()}, send.App, send.network(), maxWait)
	if wait == 0 || send.mayBeWritten || s.Policy.Get().TestRecipients.Has(send.addressHash, s.Now()) {
		return nil
	}
	if class != store.SecretKeyClass || stalled {
		maxWait /= lateForStrangers
	} else {
		maxWait /= lateForAll
	}
	late := wait
	if !stalled {
		late += wait / lateMargin
	}
	if late <= maxWait {
		return nil
	}
	s.lateRefusals.mu.Lock()
	defer s.lateRefusals.mu.Unlock()
	if s.lateRefusals.count == nil {
		s.lateRefusals.count, s.lateRefusals.last = map[store.Queue]int{}, map[recipient.Channel]time.Time{}
		s.lateRefusals.network = map[recipient.Channel]networkRefusal{}
	}
	s.lateRefusals.count[store.Queue{Channel: ch, Strangers: class != store.SecretKeyClass}]++
	if now := time.Now(); class == store.SecretKeyClass || s.lateRefusals.noteNetwork(ch, send.network(), now) {
		s.lateRefusals.last[ch] = now
	}
	return &admission.OverloadedError{Slow: ch, RetryAfter: min(max(wait-maxWait, minLateRetry), maxLateRetry)}
}

// SlowRefusals returns how many sends of a channel were refused because their messages would go out
// too late: those of back ends that know the person, and all others. last is the time of the last
// such refusal, or zero. For last, a refusal of the others counts only if its network is unknown,
// or if another network was refused less than a minute before: one network's own messages could be
// the reason.
func (s *sendService) SlowRefusals(ch recipient.Channel) (known, strangers int, last time.Time) {
	s.lateRefusals.mu.Lock()
	defer s.lateRefusals.mu.Unlock()
	l := &s.lateRefusals
	return l.count[store.Queue{Channel: ch}], l.count[store.Queue{Channel: ch, Strangers: true}], l.last[ch]
}
