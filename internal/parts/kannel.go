package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/parts/locate"
)

// KannelGateway is a private Kannel: bearerbox, smsbox, and the fake SMS centre that its own tests use, which takes every
// message and says that it was delivered.
type KannelGateway struct {
	places    []*place // of bearerbox's console, its smsbox, the SMS centre and the interface that messages are sent to
	processes []*Process
	stdin     io.Closer // of the fake SMS centre, which ends with it
}

// The user that may send.
const (
	KannelUser     = "sendcode"
	KannelPassword = "a password & more"
)

// Kannel starts a private Kannel for one test, and closes it afterwards.
func Kannel(t testing.TB) *KannelGateway {
	t.Helper()
	k, err := startKannel(t.Context())
	need(t, err)
	t.Cleanup(func() { closed(t, k.close()) })
	return k
}

// URL is where messages are sent to, without a query.
func (k *KannelGateway) URL() string { return "http://" + k.places[3].addr() + "/cgi-bin/sendsms" }

var gotMessage = regexp.MustCompile(`Got message \d+: <(.*)>`)

// Received is what the SMS centre has got, one line each: sender, number, coding and text. A text of several lines comes as
// several, of which only the first has the rest.
func (k *KannelGateway) Received() []string {
	var lines []string
	for _, found := range gotMessage.FindAllStringSubmatch(k.places[2].log(), -1) {
		lines = append(lines, found[1])
	}
	return lines
}

func startKannel(ctx context.Context) (_ *KannelGateway, err error) {
	bearerbox, err := locate.Kannel().Find()
	if err != nil {
		return nil, err
	}
	k := &KannelGateway{}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	for range 4 {
		p, err := claim()
		if err != nil {
			return nil, err
		}
		k.places = append(k.places, p)
	}
	file := filepath.Join(k.places[0].dir, "kannel.conf")
	if err := os.WriteFile(file, []byte(k.config()), 0o600); err != nil {
		return nil, err
	}
	if err := k.run(ctx, 0, exec.Command(bearerbox, file), "bearerbox"); err != nil {
		return nil, err
	}
	if err := k.run(ctx, 3, exec.Command(filepath.Join(filepath.Dir(bearerbox), "smsbox"), file), "smsbox"); err != nil {
		return nil, err
	}
	return k, k.centre(ctx)
}

// run starts a program and waits until its place answers HTTP.
func (k *KannelGateway) run(ctx context.Context, at int, cmd *exec.Cmd, name string) error {
	log, err := k.places[at].openLog()
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd.Dir, cmd.Stdout, cmd.Stderr = k.places[at].dir, log, log
	p, err := Run(cmd)
	if err != nil {
		return err
	}
	k.processes = append(k.processes, p)
	err = await(ctx, p, func(ctx context.Context) error {
		_, err := k.ask(ctx, "http://"+k.places[at].addr()+"/")
		return err
	})
	if err != nil {
		return failed(name, err, k.places[at].logPath())
	}
	return nil
}

// centre starts the fake SMS centre and waits until bearerbox has it online.
func (k *KannelGateway) centre(ctx context.Context) error {
	at := k.places[2]
	log, err := at.openLog()
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(locate.FakeSMSC, "-H", "127.0.0.1", "-r", fmt.Sprint(at.port), "-i", "0.01")
	cmd.Dir, cmd.Stdout, cmd.Stderr = at.dir, log, log
	if k.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	p, err := Run(cmd)
	if err != nil {
		return err
	}
	k.processes = append(k.processes, p)
	err = await(ctx, p, func(ctx context.Context) error {
		status, err := k.ask(ctx, "http://"+k.places[0].addr()+"/status.txt?password=console")
		if err == nil && !strings.Contains(status, "(online") {
			err = errors.New("the SMS centre is not connected")
		}
		return err
	})
	if err != nil {
		return failed("fakesmsc", err, at.logPath())
	}
	return nil
}

func (k *KannelGateway) ask(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return string(body), err
}

func (k *KannelGateway) config() string {
	return fmt.Sprintf(`group = core
admin-port = %d
admin-password = console
admin-interface = 127.0.0.1
smsbox-port = %d
smsbox-interface = 127.0.0.1
box-allow-ip = "127.0.0.1"
box-deny-ip = "*.*.*.*"
dlr-storage = internal

group = smsc
smsc = fake
smsc-id = FAKE
port = %d
connect-allow-ip = 127.0.0.1

group = smsbox
bearerbox-host = 127.0.0.1
bearerbox-port = %d
sendsms-port = %d
sendsms-interface = 127.0.0.1
http-request-retry = 3
http-queue-delay = 1

group = sendsms-user
username = %s
password = "%s"
concatenation = true
max-messages = 3
`, k.places[0].port, k.places[1].port, k.places[2].port, k.places[1].port, k.places[3].port, KannelUser, KannelPassword)
}

func (k *KannelGateway) close() error {
	var errs []error
	if k.stdin != nil {
		_ = k.stdin.Close()
	}
	for i := len(k.processes) - 1; i >= 0; i-- {
		k.processes[i].Kill()
	}
	for _, p := range k.places {
		errs = append(errs, p.release())
	}
	return errors.Join(errs...)
}
