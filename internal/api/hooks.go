package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/hooks"
	"sendcode/internal/requestid"
	"sendcode/internal/server"
	"sendcode/internal/verification"
	"sendcode/quota/quotahttp"
)

// hookCodeService are the use cases behind hooks. Implementation: verification.Service.
type hookCodeService interface {
	Send(ctx context.Context, ask verification.Request) (verification.Answer, error)
	Quota(ctx context.Context, c verification.Caller, channel, to, purpose string) (verification.Answer, error)
	Cancel(ctx context.Context, c verification.Caller, id string) (verification.Answer, error)
}

// authHooks serves /v1/hooks, where auth servers have their own codes sent.
type authHooks struct {
	hooks  map[string]hooks.Hook
	codes  hookCodeService
	logger *slog.Logger
	now    func() time.Time
}

// NewHooks returns the handlers for these hooks.
func NewHooks(all []hooks.Hook, codes hookCodeService, logger *slog.Logger) *authHooks {
	h := &authHooks{hooks: map[string]hooks.Hook{}, codes: codes, logger: logger, now: time.Now}
	for _, hook := range all {
		h.hooks[hook.Name] = hook
	}
	return h
}

// Register adds the route.
func (h *authHooks) Register(e *echo.Echo) { e.POST(server.HooksPath+":name", h.receive) }

// receive handles POST /v1/hooks/{name}. An answer that a person should read has the status 200:
// after any other status an auth server repeats the request at once, and then shows no answer. A
// forged or malformed request gets a problem.
func (h *authHooks) receive(c echo.Context) error {
	hook, ok := h.hooks[c.Param("name")]
	if !ok {
		return echo.ErrNotFound
	}
	body, err := readBody(c.Request(), hooks.MaxBodyBytes)
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
	requestid.AddLogAttrs(ctx, slog.String("app", hook.App), slog.String("hook", hook.Name))
	r, err := hook.Parse(body)
	if err != nil {
		return &server.Problem{Kind: server.MalformedJSON, Detail: "The body is not of the form of this hook's server."}
	}
	if len(r.Messages) == 0 {
		h.logger.InfoContext(ctx, "hook without a code: nothing was sent", "hook", hook.Name, "action", r.Action)
		return c.JSON(http.StatusOK, hook.SuccessBody())
	}
	if p := h.send(ctx, hook, r); p != nil {
		requestid.AddLogAttrs(ctx, slog.Int("refused", p.Kind.Status))
		return c.JSON(http.StatusOK, hook.RefusalBody(p.Kind.Status, p.Detail))
	}
	return c.JSON(http.StatusOK, hook.SuccessBody())
}

// send sends the messages of a request. If one is not admitted, it stops, cancels the verifications
// of the earlier ones, and returns the problem, whose detail the person may read. Else it returns
// nil.
func (h *authHooks) send(ctx context.Context, hook hooks.Hook, r hooks.Request) *server.Problem {
	var sent []verification.Answer
	var caller verification.Caller
	for _, ask := range h.codeRequests(ctx, hook, r) {
		caller = ask.Caller
		answer, err := h.sendRetryingBusy(ctx, ask)
		if err == nil && answer.Admitted {
			requestid.AddLogAttrs(ctx, slog.String("send", answer.View.Send.ID))
			sent = append(sent, answer)
			continue
		}
		for _, earlier := range sent { // the server forgets all codes of the request
			if _, err := h.codes.Cancel(context.WithoutCancel(ctx), caller, earlier.View.ID); err != nil {
				h.logger.InfoContext(ctx, "could not cancel a code whose server forgets it", "hook", hook.Name, "send",
					earlier.View.Send.ID, "error", err)
			}
		}
		if err != nil {
			server.LogFailure(ctx, h.logger, err)
			return problemForPerson(server.ProblemOf(err))
		}
		return &server.Problem{Kind: server.QuotaExceeded,
			Detail: "The next code can be sent in " + server.SecondsInWords(quotahttp.RetryAfterSeconds(answer.Quota)) + "."}
	}
	return nil
}

// codeRequests returns the requests for codes that a hook's request makes. Each is a stranger's and
// has its own idempotency key. Those that a rule would refuse now come first, so that nothing is
// sent in vain.
func (h *authHooks) codeRequests(ctx context.Context, hook hooks.Hook, r hooks.Request) (all []verification.Request) {
	caller := verification.Caller{App: hook.App, Kind: verification.BackEnd, IP: r.IP, Stranger: true}
	refused := map[string]int{}
	for i, m := range r.Messages {
		ask := verification.Request{
			Caller: caller, Channel: string(hook.Server.Channel()), To: m.To, Purpose: hook.Purposes[r.Action],
			Code: m.Code, TTL: hook.TTL,
			// with a space, so that no Idempotency-Key header can equal it
			Key: "hook " + hook.Name + " " + r.ID + " " + strconv.Itoa(i),
		}
		if all = append(all, ask); len(r.Messages) > 1 {
			if now, err := h.codes.Quota(ctx, caller, ask.Channel, ask.To, ask.Purpose); err != nil ||
				!now.Quota.Allowed() {
				refused[ask.Key] = 1
			}
		}
	}
	slices.SortStableFunc(all, func(a, b verification.Request) int { return refused[b.Key] - refused[a.Key] })
	return all
}

const (
	busyKeyRetryTimeout = 3 * time.Second // less than the servers wait for an answer
	busyRetryInterval   = 100 * time.Millisecond
)

// sendRetryingBusy requests a code. While an earlier request with the same key is under way, it
// tries again, for at most busyKeyRetryTimeout.
func (h *authHooks) sendRetryingBusy(ctx context.Context, ask verification.Request) (verification.Answer, error) {
	for until := time.Now().Add(busyKeyRetryTimeout); ; {
		answer, err := h.codes.Send(ctx, ask)
		if !errors.Is(err, verification.ErrKeyInProgress) || time.Now().After(until) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(busyRetryInterval):
		}
	}
}

// problemForPerson returns the problem with a detail that a person may read: its own if a field is
// invalid, else the text of its kind.
func problemForPerson(p *server.Problem) *server.Problem {
	if p.Kind.Slug == server.InvalidField.Slug {
		return p
	}
	return &server.Problem{Kind: p.Kind, Detail: p.Kind.Say}
}
