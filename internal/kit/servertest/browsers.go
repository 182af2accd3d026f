package servertest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"sendcode/tools/ensure/locate"
)

// firefoxSettings make Firefox start fewer processes and services, contact no other machine, and
// tell pages to reduce motion.
const firefoxSettings = `user_pref("app.normandy.enabled", false);
user_pref("browser.backup.enabled", false);
user_pref("browser.safebrowsing.downloads.enabled", false);
user_pref("browser.sessionstore.resume_from_crash", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.page", 0);
user_pref("dom.ipc.processCount", 1);
user_pref("dom.ipc.processPrelaunch.enabled", false);
user_pref("dom.security.https_first", false);
user_pref("extensions.enabledScopes", 0);
user_pref("fission.autostart", false);
user_pref("gfx.webrender.software", true);
user_pref("network.manage-offline-status", false);
user_pref("services.settings.server", "data:,#remote-settings-dummy/v1");
user_pref("ui.prefersReducedMotion", 1);
`

// Firefox returns a function that starts a headless Firefox. settings are further lines of its
// user.js. addr is the host:port of its WebDriver BiDi, which accepts only clients that send the
// origin http://addr. Each Firefox ends with the test.
func Firefox(t testing.TB) (start func(settings string) (addr string, err error)) {
	t.Helper()
	program := mustFind(t, locate.Firefox)
	return func(settings string) (string, error) {
		place, err := claim()
		if err != nil {
			return "", err
		}
		s := &server{place: place, stopSignal: syscall.SIGKILL}
		s.command = func() *exec.Cmd {
			cmd := exec.Command(program, "--headless", "--no-remote", "--profile", place.dir,
				"--remote-debugging-port="+strconv.Itoa(place.port), "--remote-allow-origins=http://"+s.Addr(), "about:blank")
			cmd.Env = append(os.Environ(), "HOME="+place.dir)
			return cmd
		}
		s.probe = func(ctx context.Context) error {
			connection, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
			if err != nil {
				return err
			}
			return connection.Close()
		}
		if err := os.WriteFile(filepath.Join(place.dir, "user.js"), []byte(firefoxSettings+settings), 0o600); err != nil {
			return "", errors.Join(err, s.Close())
		}
		if err := s.startOrClose(t.Context()); err != nil {
			return "", err
		}
		t.Cleanup(func() { reportError(t, s.Close()) })
		return s.Addr(), nil
	}
}

// WebKit starts a WebKitWebDriver for one test, on a display in memory, and ends it afterwards. It
// returns the base URL. Each session is a browser with its own cookies; only one session can run at
// a time.
func WebKit(t testing.TB) (base string) {
	t.Helper()
	// a display that SIGKILL ends would leave its lock behind
	display, program := newServer(t, locate.Xvfb, syscall.SIGTERM)
	name := ":" + strconv.Itoa(display.place.port)
	display.command = func() *exec.Cmd {
		return exec.Command(program, name, "-screen", "0", "600x600x24", "-nolisten", "tcp")
	}
	display.probe = func(context.Context) error {
		_, err := os.Stat("/tmp/.X11-unix/X" + name[1:])
		return err
	}
	closeAfterTest(t, display, display.startOrClose(t.Context()))

	s, program := newServer(t, locate.WebKit, syscall.SIGKILL)
	mustOrSkip(t, os.MkdirAll(filepath.Join(s.place.dir, ".config", "gtk-3.0"), 0o700))
	// The window can only be 320 pixels wide if its buttons take no room.
	s.place.write(t, ".config/gtk-3.0/gtk.css", "* { min-width: 0; padding: 0; margin: 0; border-width: 0; }")
	s.place.write(t, ".config/gtk-3.0/settings.ini", "[Settings]\ngtk-enable-animations=false\n") // reduced motion
	s.command = func() *exec.Cmd {
		cmd := exec.Command(program, "--host=127.0.0.1", "--port="+strconv.Itoa(s.place.port))
		cmd.Env = append(os.Environ(), "HOME="+s.place.dir, "DISPLAY="+name, "NO_AT_BRIDGE=1", "GSETTINGS_BACKEND=memory", "LC_ALL=C.UTF-8")
		return cmd
	}
	base = "http://" + s.Addr()
	s.probe = func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/status", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	closeAfterTest(t, s, s.startOrClose(t.Context()))
	return base
}
