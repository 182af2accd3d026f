package server

import (
	"context"
	"log/slog"
	"strings"
)

// RunbookLines are the log lines that each section of docs/runbooks.md is for: their texts up to the first colon. A test compares them with
// the code. A line that is in none says itself what to do.
var RunbookLines = map[string][]string{
	"database-away": {"database not writable", "database writable by another replica alone", "start waits", "database unavailable", "sends held",
		"could not store outcomes; retrying", "could not renew leases", "could not store refusals; retrying", "refusals lost",
		"could not release idempotency key", "quota shortened for browser", "request failed",
		"text message postponed", "could not refund cost", "could not rebuild limiter from database",
		"export incomplete, or its audit entry not stored",
		"could not store audit entry of finished action"},
	"database-slow": {"database slow", "slow statement", "requests refused at once", "abandoned send taken over", "late outcome discarded"},
	"keys":          {"keys differ from those of database", "key ring incomplete", "request needs missing key"},
	"redis": {"limiter unavailable", "Redis Cluster partly away", "Redis refuses commands that a send needs", "Redis did not answer at start",
		"could not compare limiter with database", "could not update time of send in limiter", "rejected send not counted yet", "refund postponed",
		"could not refund event in this process", "could not count wrong code for app"},
	"sends-wait": {"mail server suspended after failures", "carrier suspended after failures"},
	"sends-fail": {"could not compose message"},
	"attack": {"failed checks exceed the app's bound", "checks refused", "sends refused by breaker", "browser requests refused",
		"X-Forwarded-For or Forwarded ignored"},
	"text-messages": {"text messages to prefix paused", "spend cap reached", "spend cap used to 80 %"},
	"room":          {"no partition for coming months"},
	"jobs":          {"job failed"},
	"configuration": {"configuration reload rejected", "changed setting needs a restart", "console login disabled",
		"request of hosted page rejected", "link to the page refused"},
	"events": {"could not read webhook events; retrying", "could not store webhook result", "late webhook result discarded",
		"webhook event given up", "webhook events given up", "provider events rejected", "receipt rejected", "could not store receipt",
		"could not store that no receipt is expected"},
	"console": {"action refused", "expired admin token refused", "unknown admin token refused", "second factor refused",
		"OpenID login response replayed", "OpenID login refused", "OpenID login failed", "login failed", "login refused to unknown browsers",
		"login refused", "could not count login attempts", "could not count second-factor attempts", "could not read password hash of account"},
	"defect": {"panic", "could not sign proof", "could not make return reference", "could not make event ID", "could not decrypt second factor",
		"could not make known-browser cookie"},
}

var runbooks = func() map[string]string {
	all := map[string]string{}
	for section, lines := range RunbookLines {
		for _, line := range lines {
			all[line] = "docs/runbooks.md#" + section
		}
	}
	return all
}()

// RunbookKey returns the part of a log line's text by which its section is found.
func RunbookKey(text string) string {
	head, _, _ := strings.Cut(text, ":")
	return head
}

// NameRunbooks returns a logger that names the section of docs/runbooks.md for each warning and error, as "see".
func NameRunbooks(l *slog.Logger) *slog.Logger { return slog.New(runbookHandler{l.Handler()}) }

type runbookHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h runbookHandler) Handle(ctx context.Context, line slog.Record) error {
	if see := runbooks[RunbookKey(line.Message)]; see != "" && line.Level >= slog.LevelWarn {
		line = line.Clone()
		line.AddAttrs(slog.String("see", see))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (h runbookHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return runbookHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h runbookHandler) WithGroup(name string) slog.Handler {
	return runbookHandler{h.Handler.WithGroup(name)}
}
