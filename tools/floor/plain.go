package main

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

const insertSQL = `INSERT INTO plain (id, recipient, purpose, status) VALUES ($1, $2, $3, 'sent')`

// sendPlain does each thing once, in turn, and keeps no other record than the row.
func (f *floor) sendPlain(c echo.Context) error {
	x, err := f.read(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	admitted, err := take.Run(ctx, f.redis, []string{"plain:" + x.to}, x.send.String()).Int()
	if err != nil {
		return err
	}
	if admitted == 0 {
		return c.NoContent(http.StatusTooManyRequests)
	}
	if _, err := f.db.Exec(ctx, insertSQL, x.send, x.to, x.purpose); err != nil {
		return err
	}
	if err := f.mail(x); err != nil {
		return err
	}
	return f.answer(c, x)
}
