package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"sendcode/internal/delivery/mailbox"
	"sendcode/internal/parts"
)

// street is what production has around sendcode.
type street struct {
	redis    *parts.RedisServer
	postgres *parts.PostgresServer
	mails    *mailbox.Mailbox
	reader   *http.Server
	readerAt string
	closers  []func() error // in the order of opening; called in reverse
}

// open starts every part, or none. mailAddr is where received mails can be read.
func open(ctx context.Context, mailAddr string) (_ *street, err error) {
	s := &street{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.redis, err = parts.StartRedis(ctx, "--appendonly", "yes"); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.redis.Close)
	if s.postgres, err = parts.StartPostgres(ctx); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.postgres.Close)
	if s.mails, err = mailbox.New(mailbox.Config{}); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.mails.Close)
	return s, s.openReader(mailAddr)
}

// openReader takes any port where the given one is in use.
func (s *street) openReader(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return err
	}
	s.readerAt = "http://" + listener.Addr().String() + "/"
	s.reader = &http.Server{Handler: reader{s.mails}, ReadHeaderTimeout: 5 * time.Second}
	s.closers = append(s.closers, s.reader.Close)
	go s.reader.Serve(listener) // until Close
	return nil
}

func (s *street) close() error {
	var errs []error
	for _, end := range slices.Backward(s.closers) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

func (s *street) env() []string {
	return []string{
		"SENDCODE_REDIS_URL=" + s.redis.URL(),
		"SENDCODE_DATABASE_URL=" + s.postgres.URL(),
		"SENDCODE_SMTP_URL=" + s.mails.URL(),
	}
}

func (s *street) tell(out io.Writer, secret secrets) {
	fmt.Fprintf(out, `redis     %s
postgres  %s
smtp      %s
mails     %s   (what the SMTP server received)
admin     password %s
api key   %s

`, s.redis.URL(), s.postgres.URL(), s.mails.URL(), s.readerAt, secret.password, secret.apiKey)
}
