// Command floor does the least work with which a code can be sent and checked: it writes a row for
// the send and a row for its verification, and nothing more. tools/bench compares the service with
// it. It has no other use, and does not try a failed send or check again.
//
// A send has five steps: one script in Redis; one transaction with the lock, the count, the
// verification and the send; the answer; the mail; one UPDATE for the outcome. A check is one
// transaction. Requests that arrive during a round trip share the next one, as in the service.
// Answers and mails are filled up to the lengths of the service's, which the bench passes.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

const mailConns = 16 // the service has as many in the bench

type floor struct {
	redis        *redis.Client
	db           *pgxpool.Pool
	mails        chan *mailer // free connections
	answer, mail int          // lengths in bytes

	takes, begins, ends, checks *sharing // each makes as many round trips at once as the service does for these calls
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	f := &floor{mails: make(chan *mailer, mailConns)}
	f.takes, f.begins = &sharing{most: 2, trip: f.take}, &sharing{most: 2, trip: f.begin}
	f.ends, f.checks = &sharing{most: 1, trip: f.end}, &sharing{most: 2, trip: f.decide}
	if _, err := fmt.Sscan(os.Getenv("FLOOR_BYTES"), &f.answer, &f.mail); err != nil {
		return fmt.Errorf("FLOOR_BYTES: %w", err)
	}
	options, err := redis.ParseURL(os.Getenv("FLOOR_REDIS_URL"))
	if err != nil {
		return err
	}
	f.redis = redis.NewClient(options)
	if f.db, err = openDatabase(ctx, os.Getenv("FLOOR_DATABASE_URL")); err != nil {
		return err
	}
	for range mailConns {
		m, err := dialMail(os.Getenv("FLOOR_SMTP_ADDR"))
		if err != nil {
			return err
		}
		f.mails <- m
	}
	return f.serve(ctx)
}

// serve prints its address as the service does, and ends on SIGTERM.
func (f *floor) serve(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/verifications", f.send)
	mux.HandleFunc("POST /v1/verifications/{id}/check", f.check)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	fmt.Printf(`"msg":"serving","addr":"%s"`+"\n", listener.Addr())
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// code is one request for a code, or one check of it.
type code struct {
	to, purpose  string
	send         uuid.UUID
	verification string
	digits       string
}

func digitsOf(send uuid.UUID) string { return fmt.Sprintf("%06d", uint32(send.ID())%1_000_000) }

func (f *floor) send(w http.ResponseWriter, r *http.Request) {
	var asked struct{ To, Purpose string }
	id, err := uuid.NewV7()
	if json.NewDecoder(r.Body).Decode(&asked) != nil || err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	x := &code{to: asked.To, purpose: asked.Purpose, send: id, verification: rand.Text(), digits: digitsOf(id)}
	for _, gate := range []*sharing{f.takes, f.begins} {
		if admitted, err := gate.do(x); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		} else if !admitted {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
	}
	go f.deliver(x)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(filled(f.answer, "-", `{"id":"`+x.verification+`","rest":"`, `"}`))
}

func (f *floor) check(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Code string }
	if json.NewDecoder(r.Body).Decode(&asked) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	id := r.PathValue("id")
	correct, err := f.checks.do(&code{to: id, verification: id, digits: asked.Code, send: uuid.New()})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = fmt.Fprintf(w, `{"id":"%s","valid":%t}`, id, correct)
}

// deliver sends the mail over a free connection, and writes its outcome.
func (f *floor) deliver(x *code) {
	m := <-f.mails
	head := "From: no-reply@localhost\r\nTo: " + x.to + "\r\nSubject: Your code\r\n\r\n" + x.digits + "\r\n"
	err := m.mail(x.to, filled(f.mail, strings.Repeat("-", 70)+"\r\n", head, "\r\n"))
	f.mails <- m
	if err == nil {
		_, err = f.ends.do(x)
	}
	if err != nil {
		log.Print(err)
	}
}

// filled returns before and after with a filling between them. The result is size bytes long.
func filled(size int, filling, before, after string) []byte {
	left := max(0, size-len(before)-len(after))
	return []byte(before + strings.Repeat(filling, left/len(filling)+1)[:left] + after)
}
