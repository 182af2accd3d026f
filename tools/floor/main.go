// Command floor is the least that sending a code can cost: one handler that, for each request, runs one script in
// Redis, inserts one row in Postgres and hands one mail to a server, each over connections that are kept. It checks
// no rule but one, retries nothing, promises nothing and stops without a word. tools/bench measures the service
// against it; nobody should run it for anything else.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/smtp"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
)

const (
	dbConns   = 16
	mailConns = 16
)

// once is the script: at most one in a minute for each recipient.
var once = redis.NewScript(`
local now = redis.call('TIME')
local at = now[1] * 1000000 + now[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', at - 60000000)
if redis.call('ZCARD', KEYS[1]) > 0 then return 0 end
redis.call('ZADD', KEYS[1], at, ARGV[1])
redis.call('PEXPIRE', KEYS[1], 60000)
return 1`)

const table = `CREATE TABLE IF NOT EXISTS floor (
	id uuid PRIMARY KEY, recipient text NOT NULL, purpose text NOT NULL, status text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())`

const insert = `INSERT INTO floor (id, recipient, purpose, status) VALUES ($1, $2, $3, 'sent')`

const letter = "From: floor <no-reply@localhost>\r\nTo: <%s>\r\nSubject: Your code\r\nMessage-ID: <%s@localhost>\r\nDate: %s\r\n\r\n" +
	"Your code is\r\n\r\n123456\r\n\r\nIt is valid for 10 minutes.\r\n"

type floor struct {
	redis *redis.Client
	db    *pgxpool.Pool
	mail  chan *smtp.Client
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	options, err := redis.ParseURL(os.Getenv("FLOOR_REDIS_URL"))
	if err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(os.Getenv("FLOOR_DATABASE_URL"))
	if err != nil {
		return err
	}
	config.MaxConns = dbConns
	f := &floor{redis: redis.NewClient(options), mail: make(chan *smtp.Client, mailConns)}
	if f.db, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if _, err := f.db.Exec(ctx, table); err != nil {
		return err
	}
	for range mailConns {
		client, err := smtp.Dial(os.Getenv("FLOOR_SMTP_ADDR"))
		if err != nil {
			return err
		}
		f.mail <- client
	}
	return f.serve()
}

// serve says where it listens, and ends when whoever started it closes its input.
func (f *floor) serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	e := echo.New()
	e.POST("/v1/verifications", f.send)
	server := &http.Server{Handler: e, ReadHeaderTimeout: 5 * time.Second}
	fmt.Println("http://" + listener.Addr().String())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		_ = server.Close()
	}()
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func (f *floor) send(c echo.Context) error {
	var ask struct {
		To      string `json:"to"`
		Purpose string `json:"purpose"`
	}
	if err := c.Bind(&ask); err != nil {
		return err
	}
	ctx, id := c.Request().Context(), uuid.New()
	admitted, err := once.Run(ctx, f.redis, []string{"floor:" + ask.To}, id.String()).Int()
	if err != nil {
		return err
	}
	if admitted == 0 {
		return c.JSON(http.StatusTooManyRequests, map[string]any{"status": "refused"})
	}
	if _, err := f.db.Exec(ctx, insert, id, ask.To, ask.Purpose); err != nil {
		return err
	}
	client := <-f.mail
	defer func() { f.mail <- client }()
	if err := transact(client, ask.To, id); err != nil {
		log.Print(err)
		return err
	}
	return c.JSON(http.StatusAccepted, map[string]any{"id": id, "status": "sent"})
}

func transact(client *smtp.Client, to string, id uuid.UUID) error {
	if err := client.Mail("no-reply@localhost"); err != nil {
		return err
	}
	if err := client.Rcpt(to); err != nil {
		return err
	}
	body, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(body, letter, to, id, time.Now().Format(time.RFC1123Z)); err != nil {
		return err
	}
	return body.Close()
}
