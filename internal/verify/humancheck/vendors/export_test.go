package vendors

import (
	"context"
	"net"
)

// DialWith makes the client open its connections with dial.
func (v *Verifier) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	v.http.Dial = dial
}
