package servertest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	edits  []string // what a test has instead of parts of Config: no TLS, a port and a directory of its own
}

// The reverse proxies. PORT and DIR are the test's own.
var (
	HAProxy = ReverseProxy{locate.HAProxy, "haproxy.cfg", []string{"-db", "-f"},
		[]string{":443 ssl crt /etc/haproxy/codes.pem", "127.0.0.1:PORT"}}
	Nginx = ReverseProxy{locate.Nginx, "nginx.conf", []string{"-e", "stderr", "-g", "daemon off; pid DIR/pid;", "-c"},
		[]string{"listen 443 ssl;", "listen 127.0.0.1:PORT;", "        ssl_certificate     /etc/nginx/codes.pem;\n", "",
			"        ssl_certificate_key /etc/nginx/codes.key;\n", "", "http {",
			"http {\n    access_log off;\n    client_body_temp_path DIR/1;\n" +
				"    proxy_temp_path DIR/2;\n    fastcgi_temp_path DIR/3;\n    uwsgi_temp_path DIR/4;\n    scgi_temp_path DIR/5;\n"}}
	Caddy = ReverseProxy{locate.Caddy, "Caddyfile", []string{"run", "--adapter", "caddyfile", "--config"},
		[]string{"codes.example {", "{\n\tadmin off\n}\nhttp://127.0.0.1:PORT {"}}
)

// With returns the proxy with new instead of old in its file.
func (p ReverseProxy) With(old, new string) ReverseProxy {
	p.edits = slices.Concat(p.edits, []string{old, new})
	return p
}

// Proxy starts a reverse proxy in front of two replicas for one test, with the file in deploy as
// operators copy it, and closes it afterwards. It returns the base URL.
func Proxy(t testing.TB, p ReverseProxy, deploy string, replicas [2]string) string {
	t.Helper()
	program := found(t, p.Part)
	text, err := os.ReadFile(filepath.Join(deploy, p.Config))
	need(t, err)
	place, err := claim()
	need(t, err)
	_, port, err := net.SplitHostPort(place.addr())
	need(t, err)
	config := string(text)
	for _, edit := range append([][2]string{{"10.0.0.11:8080", replicas[0]}, {"10.0.0.12:8080", replicas[1]}},
		pairs(p.edits)...) {
		if !strings.Contains(config, edit[0]) {
			t.Fatalf("%s has no %q", p.Config, edit[0])
		}
		config = strings.ReplaceAll(config, edit[0], edit[1])
	}
	own := strings.NewReplacer("PORT", port, "DIR", place.dir)
	file := filepath.Join(place.dir, p.Config)
	need(t, os.WriteFile(file, []byte(own.Replace(config)), 0o600))
	s := &server{place: place, last: syscall.SIGTERM} // a master that is killed leaves workers behind
	s.command = func() *exec.Cmd {
		cmd := exec.Command(program)
		for _, arg := range append(p.args, file) {
			cmd.Args = append(cmd.Args, own.Replace(arg))
		}
		cmd.Env = []string{"HOME=" + place.dir, "PATH=" + os.Getenv("PATH")}
		return cmd
	}
	s.probe = func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", place.addr())
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	return "http://" + kept(t, s, s.first(t.Context())).Addr()
}

func pairs(list []string) (out [][2]string) {
	for i := 0; i < len(list); i += 2 {
		out = append(out, [2]string(list[i:i+2]))
	}
	return out
}
