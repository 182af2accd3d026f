package servertest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sendcode/tools/ensure/locate"
)

// ReverseProxy is a program that operators put in front of replicas.
type ReverseProxy struct {
	locate.Part
	Config string // the file in deploy
	args   []string
	edits  [][2]string // changes of the configuration for a test: no TLS, and the test's own port and directory
}

// PORT and DIR stand for the test's own port and directory.
var (
	HAProxy = ReverseProxy{
		locate.HAProxy, "haproxy.cfg",
		[]string{"-db", "-f"},
		[][2]string{{":443 ssl crt /etc/haproxy/codes.pem", "127.0.0.1:PORT"}},
	}
	Nginx = ReverseProxy{
		locate.Nginx, "nginx.conf",
		[]string{"-e", "stderr", "-g", "daemon off; pid DIR/pid;", "-c"},
		[][2]string{
			{"listen 443 ssl;", "listen 127.0.0.1:PORT;"},
			{"        ssl_certificate     /etc/nginx/codes.pem;\n", ""},
			{"        ssl_certificate_key /etc/nginx/codes.key;\n", ""},
			{"http {", "http {\n    access_log off;\n    client_body_temp_path DIR/1;\n    proxy_temp_path DIR/2;\n" +
				"    fastcgi_temp_path DIR/3;\n    uwsgi_temp_path DIR/4;\n    scgi_temp_path DIR/5;\n"},
		},
	}
	Caddy = ReverseProxy{
		locate.Caddy, "Caddyfile",
		[]string{"run", "--adapter", "caddyfile", "--config"},
		[][2]string{{"codes.example {", "{\n\tadmin off\n}\nhttp://127.0.0.1:PORT {"}},
	}
)

// With returns the proxy with the text old replaced by the text new in its configuration.
func (p ReverseProxy) With(old, new string) ReverseProxy {
	p.edits = slices.Concat(p.edits, [][2]string{{old, new}})
	return p
}

// Proxy starts a reverse proxy in front of two replicas for one test, and closes it afterwards. It
// uses the file in deploy that operators copy, with the edits of p. It returns the base URL.
func Proxy(t testing.TB, p ReverseProxy, deploy string, replicas [2]string) string {
	t.Helper()
	p.edits = append([][2]string{{"10.0.0.11:8080", replicas[0]}, {"10.0.0.12:8080", replicas[1]}}, p.edits...)
	return "http://" + proxy(t, p, deploy).Addr()
}

func proxy(t testing.TB, p ReverseProxy, deploy string) *server {
	t.Helper()
	s, program := newServer(t, p.Part, syscall.SIGTERM) // a master that is killed leaves workers behind
	text, err := os.ReadFile(filepath.Join(deploy, p.Config))
	mustOrSkip(t, err)
	config := string(text)
	for _, edit := range p.edits {
		if !strings.Contains(config, edit[0]) {
			t.Fatalf("%s has no %q", p.Config, edit[0])
		}
		config = strings.ReplaceAll(config, edit[0], edit[1])
	}
	own := strings.NewReplacer("PORT", strconv.Itoa(s.place.port), "DIR", s.place.dir)
	file := s.place.write(t, p.Config, own.Replace(config))
	s.command = func() *exec.Cmd {
		cmd := exec.Command(program)
		for _, arg := range append(p.args, file) {
			cmd.Args = append(cmd.Args, own.Replace(arg))
		}
		cmd.Env = []string{"HOME=" + s.place.dir, "PATH=" + os.Getenv("PATH")}
		return cmd
	}
	s.probe = func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr())
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	return closeAfterTest(t, s, s.startOrClose(t.Context()))
}
