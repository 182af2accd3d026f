package server

import (
	"github.com/labstack/echo/v4"

	"sendcode/internal/requestid"
)

// requestID is middleware that begins each request's context with its ID, which the answer has too.
func requestID(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		ctx, id := requestid.NewContext(r.Context(), r.Header.Get(echo.HeaderXRequestID), r.Header.Get("Traceparent"))
		c.Response().Header().Set(echo.HeaderXRequestID, id)
		c.SetRequest(r.WithContext(ctx))
		return next(c)
	}
}
