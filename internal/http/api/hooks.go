package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/internal/http/authhooks"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// hookCodeService has the use cases that the hooks need. Implementation: verification.Service.
type hookCodeService interface {
	Send(ctx context.Context, ask verification.Request) (verification.Answer, error)
	NeverTogether(c verification.Caller, channel, purpose string, to ...string) bool
	Cancel(ctx context.Context, c verification.Caller, id string) (verification.Answer, error)
}

// AuthHooks serves /v1/hooks, by which auth servers let the service send their codes.
type AuthHooks struct {
	hooks  map[string]authhooks.Hook
	codes  hookCodeService
	logger *slog.Logger
	now    func() time.Time
}

// NewAuthHooks returns the handlers for these hooks.
func NewAuthHooks(all []authhooks.Hook, codes hookCodeService, logger *slog.Logger) *AuthHooks {
	h := &AuthHooks{hooks: map[string]authhooks.Hook{}, codes: codes, logger: logger, now: time.Now}
	for _, hook := range all {
		h.hooks[hook.Name] = hook
	}
	return h
}

// Register adds the route.
func (h *AuthHooks) Register(e *echo.Echo) { e.POST(server.HooksPath+":name", h.receive) }

// receive handles POST /v1/hooks/{name}, by which an auth server lets the service send its codes.
// An answer that the auth server should show to the person has the status 200, even if nothing was
// sent, because the auth server replaces the message of an answer with another status by its own. A
// forged or malformed request gets a problem with another status.
func (h *AuthHooks) receive(c echo.Context) error {
	hook, ok := h.hooks[c.Param("name")]
	if !ok {
		return echo.ErrNotFound
	}
	if !hook.CouldVerify(c.Request().Header, h.now()) {
		return &server.Problem{Kind: server.Unauthorized}
	}
	body, err := server.ReadBody(c.Request(), authhooks.MaxBodyBytes)
	if err != nil {
		return err
	}
	if !hook.Verify(c.Request().Header, body, h.now()) {
		return &server.Problem{Kind: server.Unauthorized}
	}
	if err := server.RefuseCoding(c.Request()); err != nil {
		return err
	}
	ctx := c.Request().Context()
	logs.AddAttrs(ctx, slog.String("app", hook.App), slog.String("hook", hook.Name))
	r, err := hook.Parse(body)
	if err != nil {
		return &server.Problem{Kind: server.MalformedJSON, Detail: "The body is not of the form of this hook's server."}
	}
	if r.Missing != "" {
		h.logger.InfoContext(ctx, "hook without what is to be sent: nothing was sent", "hook", hook.Name, "action", r.Action)
		return writeHookRefusal(c, hook, &server.Problem{Kind: server.InvalidField, Detail: r.Missing})
	}
	if len(r.Messages) == 0 {
		h.logger.InfoContext(ctx, "hook without a code: nothing was sent", "hook", hook.Name, "action", r.Action)
		return c.JSON(http.StatusOK, hook.SuccessBody())
	}
	if p := h.send(ctx, hook, r); p != nil {
		return writeHookRefusal(c, hook, p)
	}
	return c.JSON(http.StatusOK, hook.SuccessBody())
}

// writeHookRefusal answers with a problem whose detail the person may read.
func writeHookRefusal(c echo.Context, hook authhooks.Hook, p *server.Problem) error {
	logs.AddAttrs(c.Request().Context(), slog.Int("refused", p.Kind.Status))
	return c.JSON(http.StatusOK, hook.RefusalBody(p.Kind.Status, p.InEnglish()))
}

// Each request of a hook has one deadline. The deadline is shorter than the 5 s that auth servers
// wait for an answer. After the deadline, the service waits another hookGrace for sends under way.
// If a send was not admitted before the deadline, no message of the request is sent.
const (
	hookDeadline = 4 * time.Second
	hookGrace    = time.Second / 2
)

// send sends the messages of a request. First, each message is admitted or refused. If a message is
// refused or is not decided before the deadline, no message is sent. Otherwise the messages leave,
// and send waits until their calls of Send have returned, at most until hookGrace after the
// deadline. If all calls have returned and a message failed, send cancels the codes of the other
// messages. If a call has not returned, send cancels nothing.
//
// send returns the problem, with a detail that the person may read. If the result is nil, the
// messages are on their way. send goes on if the auth server hangs up, because the auth server then
// repeats the request, and the repetition gets the result.
func (h *AuthHooks) send(ctx context.Context, hook authhooks.Hook, r authhooks.Request) *server.Problem {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookDeadline)
	defer cancel()
	asks, to := codeRequests(hook, r), []string{}
	for _, ask := range asks {
		to = append(to, ask.To)
	}
	if caller := asks[0].Caller; len(asks) > 1 && h.codes.NeverTogether(caller, asks[0].Channel, asks[0].Purpose, to...) {
		return &server.Problem{
			Kind: server.InvalidField,
			Detail: "The old and the new address are one mailbox here, and two codes cannot " +
				"go to it at once. Nothing was sent. Use another address.",
		}
	}
	results, agreement := make([]hookResult, len(asks)), &vote{missing: len(asks), known: make(chan struct{})}
	var sends sync.WaitGroup
	for i, ask := range asks {
		var once sync.Once
		admitted := func(yes bool) { once.Do(func() { agreement.cast(yes) }) }
		ask.MaySend = func() bool {
			admitted(ctx.Err() == nil)
			return agreement.wait(ctx)
		}
		sends.Go(func() {
			results[i].err = fault.Uncertain
			defer panics.Recover(panics.Request, func() { admitted(false) })
			answer, err := h.codes.Send(ctx, ask)
			results[i] = hookResult{answer, err}
			admitted(err == nil && answer.Admitted)
		})
	}
	ended := make(chan struct{})
	go func() { defer close(ended); sends.Wait() }()
	select {
	case <-ended:
	case <-time.After(hookDeadline + hookGrace):
		if agreement.wait(ctx) { // all were admitted in time: the messages are on their way
			return nil
		}
		return problemForPerson(&server.Problem{Kind: server.Unavailable})
	}
	if p := h.admissionProblem(ctx, results); p != nil {
		return p
	}
	return h.cancelAfterFailure(ctx, hook, asks[0].Caller, results)
}

// hookResult holds the results of Send for one message.
type hookResult struct {
	verification.Answer
	err error
}

// admissionProblem returns the problem of messages that were not admitted. If a send returned an
// error, the problem is that error. Otherwise, if messages were refused, the problem has the
// longest of their waits. If messages were held back only because others were not decided in time,
// the problem is Unavailable. If all messages were admitted, the result is nil.
func (h *AuthHooks) admissionProblem(ctx context.Context, results []hookResult) *server.Problem {
	longest, held := time.Duration(0), false
	for _, r := range results {
		switch {
		case errors.Is(r.err, verification.ErrKeptBack):
			held = true
		case r.err != nil:
			server.LogFailure(ctx, h.logger, r.err)
			return problemForPerson(server.ProblemOf(r.err))
		case !r.Admitted:
			longest = max(longest, r.Quota.RetryAfter(), 1) // 1, because the rule may admit the send by now, and longest must not stay 0
		}
	}
	switch {
	case longest == 0 && held:
		return problemForPerson(&server.Problem{Kind: server.Unavailable})
	case longest == 0:
		return nil
	}
	return &server.Problem{Kind: server.QuotaExceeded, Detail: "The next code can be sent in {wait}.", Wait: longest}
}

// cancelAfterFailure returns the problem of the first message that failed for good. It cancels the
// other codes of the request, because the auth server forgets all codes after a failure. If no
// message failed, it cancels nothing and returns nil. If the recipient was refused or blocked, the
// problem asks for another address. Any other failure gets the problem Unavailable.
func (h *AuthHooks) cancelAfterFailure(ctx context.Context, hook authhooks.Hook, caller verification.Caller,
	results []hookResult,
) *server.Problem {
	failed := func(r hookResult) bool {
		return r.View.Send.Status == store.Failed || r.View.Send.Status == store.Undelivered
	}
	first := slices.IndexFunc(results, failed)
	for _, r := range results {
		logs.AddAttrs(ctx, slog.String("send", r.View.Send.ID))
		if first < 0 || failed(r) {
			continue
		}
		if _, err := h.codes.Cancel(context.WithoutCancel(ctx), caller, r.View.ID); err != nil {
			h.logger.InfoContext(ctx, "could not cancel a code whose server forgets it", "hook", hook.Name, "send",
				r.View.Send.ID, "error", err)
		}
	}
	switch {
	case first < 0:
		return nil
	case store.CountsAsRejected(results[first].View.Send.Reason) || results[first].View.Send.Reason == store.ReasonBlocked:
		return &server.Problem{Kind: server.InvalidField, Detail: server.DeliveryFailed.Say}
	}
	return problemForPerson(&server.Problem{Kind: server.Unavailable})
}

// vote lets the messages of a request leave once all are admitted.
type vote struct {
	mu      sync.Mutex
	missing int // votes; 0: the result is known
	agreed  bool
	known   chan struct{} // closed once the result is known
}

// cast counts the vote of one message. The first vote of false decides.
func (v *vote) cast(yes bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.missing == 0 {
		return
	}
	v.missing--
	if yes && v.missing > 0 {
		return
	}
	v.agreed, v.missing = yes, 0
	close(v.known)
}

// wait waits until it is known whether all messages of the request were admitted, and returns the
// result. If ctx ends first, the result is false for all messages.
func (v *vote) wait(ctx context.Context) bool {
	select {
	case <-v.known:
	case <-ctx.Done():
		v.cast(false)
	}
	return v.agreed
}

// codeRequests returns a request to package verification for each code that the auth server's
// request contains. Each request has its own idempotency key. Each request is for a stranger.
func codeRequests(hook authhooks.Hook, r authhooks.Request) (all []verification.Request) {
	for i, m := range r.Messages {
		all = append(all, verification.Request{
			Caller: verification.Caller{
				App: hook.App, Kind: verification.BackEnd, IP: r.IP,
				// with a character that idempotencyKey never returns, so that no request of the app
				// has it
				IdempotencyKey: strings.Join([]string{"hook", hook.Name, r.ID, strconv.Itoa(i)}, "\x00"),
			},
			Channel: string(hook.Kind.Channel()), To: m.To, Purpose: hook.Purposes[r.Action],
			Code: m.Code, TTL: hook.TTL, Reports: hook.AppReports, Wait: hookDeadline,
		})
	}
	return all
}

// problemForPerson returns the problem with a detail that a person may read. A problem with an
// invalid field or too many checks keeps its own detail. Any other problem gets the text of its
// kind.
func problemForPerson(p *server.Problem) *server.Problem {
	if p.Kind.Slug == server.InvalidField.Slug || p.Kind.Slug == server.TooManyChecks.Slug {
		return p
	}
	return &server.Problem{Kind: p.Kind, Detail: p.Kind.Say}
}
