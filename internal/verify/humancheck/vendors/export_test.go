package vendors

import (
	"context"
	"net"
)

// DialWith has the client open its connections with dial.
func (c *Client) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	c.http.Dial = dial
}
