package main

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"sendcode/internal/delivery/mailbox"
)

// reader shows received mails as plain text, the newest first. It answers under
// names of this machine alone, or a site could point a name of its own here and
// have the visitor's browser read along.
type reader struct{ mails *mailbox.Mailbox }

func (r reader) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if !ownName(request.Host) {
		http.Error(w, "no such host", http.StatusMisdirectedRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	messages := r.mails.Messages()
	if len(messages) == 0 {
		fmt.Fprintln(w, "no mail yet")
	}
	for _, m := range messages {
		fmt.Fprintf(w, "%s\nTo: %s\nSubject: %s\n\n%s\n\n", m.At.Local().Format(time.DateTime), m.To, m.Subject, m.Text)
	}
}

func ownName(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = hostPort
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
