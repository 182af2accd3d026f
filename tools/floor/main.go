// Command floor is what sending a code costs at least. tools/bench measures the service against it;
// it is of no other use, retries nothing and stops without a word. FLOOR_KIND says how much it
// does:
//
//   - bare: reads the request and answers.
//   - plain: one script in Redis, one INSERT, one mail, then the answer.
//   - fair: the record that the service keeps, and no more. One script; lock, count, verification and send in one transaction; the
//     answer; the mail; one UPDATE for its outcome. A check is one transaction. What arrives while a trip is under way shares the next
//     one, as in the service.
//
// Answers and mails have the bytes of the service's: the bench gives samples of both.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
)

const mailConns = 16 // as the service has in the bench

type floor struct {
	redis *redis.Client
	db    *pgxpool.Pool
	mails chan *mailer // connections that are free
	like  samples
	fair  *fair
}

func main() {
	if err := run(os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(env func(string) string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	f := &floor{mails: make(chan *mailer, mailConns)}
	if err := f.like.read(env("FLOOR_SAMPLES")); err != nil {
		return err
	}
	send := map[string]echo.HandlerFunc{"bare": f.sendBare, "plain": f.sendPlain, "fair": f.sendFair}[env("FLOOR_KIND")]
	if send == nil {
		return errors.New("FLOOR_KIND is bare, plain or fair")
	}
	if env("FLOOR_KIND") != "bare" {
		if err := f.open(ctx, env); err != nil {
			return err
		}
	}
	return f.serve(ctx, send)
}

func (f *floor) open(ctx context.Context, env func(string) string) (err error) {
	options, err := redis.ParseURL(env("FLOOR_REDIS_URL"))
	if err != nil {
		return err
	}
	f.redis = redis.NewClient(options)
	if f.db, err = openDatabase(ctx, env("FLOOR_DATABASE_URL")); err != nil {
		return err
	}
	f.fair = newFair(f)
	for range mailConns {
		m, err := dialMail(env("FLOOR_SMTP_ADDR"))
		if err != nil {
			return err
		}
		f.mails <- m
	}
	return nil
}

// serve prints its address, and ends on SIGTERM.
func (f *floor) serve(ctx context.Context, send echo.HandlerFunc) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	e := echo.New()
	e.POST("/v1/verifications", send)
	e.POST("/v1/verifications/:id/check", f.check)
	e.GET("/metrics", allocations)
	server := &http.Server{Handler: e, ReadHeaderTimeout: 5 * time.Second}
	fmt.Println("http://" + listener.Addr().String())
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// allocations are named as the service names them.
func allocations(c echo.Context) error {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return c.String(http.StatusOK, fmt.Sprintf("go_memstats_mallocs_total %d\n", m.Mallocs))
}

// code is one request for a code.
type code struct {
	to, purpose  string
	send         uuid.UUID
	verification string
	digits       string
}

func (f *floor) read(c echo.Context) (*code, error) {
	var asked struct{ Channel, To, Purpose, Locale string }
	if err := json.NewDecoder(c.Request().Body).Decode(&asked); err != nil {
		return nil, echo.NewHTTPError(http.StatusBadRequest)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	verification := (rand.Text() + rand.Text())[:len(f.like.Verification)]
	return &code{to: asked.To, purpose: asked.Purpose, send: id, verification: verification, digits: digitsOf(id)}, nil
}

func (f *floor) answer(c echo.Context, x *code) error {
	for name, values := range f.like.Headers {
		c.Response().Header()[name] = values
	}
	c.Response().Header().Set("Location", "/v1/verifications/"+x.verification)
	return c.Blob(http.StatusAccepted, f.like.Headers.Get("Content-Type"), f.like.body.fill(x))
}

func (f *floor) sendBare(c echo.Context) error {
	x, err := f.read(c)
	if err != nil {
		return err
	}
	return f.answer(c, x)
}
