package browsertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
)

var errColours = errors.New("the colours of WebKit are fixed when the tab is opened")

// webkitTab implements driver with a session of WebDriver (https://www.w3.org/TR/webdriver2/).
type webkitTab struct {
	session string // URL of the session
	look    Look
}

// WebKit starts a WebKitGTK, in which each tab is a browser of its own.
func WebKit(all testing.TB) Browser {
	all.Helper()
	base := servertest.WebKit(all)
	return Browser{func(t testing.TB, look Look) (driver, error) {
		t.Helper()
		args := []string{"--automation"}
		if look.Dark {
			args = append(args, "--dark-mode")
		}
		if look.NoCookies {
			args = append(args, "--cookies-policy=never")
		}
		patience := servertest.Patience.Milliseconds()
		capabilities := object{"capabilities": object{"alwaysMatch": object{
			"timeouts":                 object{"script": patience, "pageLoad": patience},
			"webkitgtk:browserOptions": object{"args": args},
		}}}
		var session struct{ SessionID string }
		w := &webkitTab{base + "/session", look}
		// Once in a few hundred starts, a driver opens no session and gives no answer. A new driver
		// works. The new one serves all later tabs, so it ends with the browser's test, not with
		// this tab's.
		err := w.callWithin(servertest.Patience/5, http.MethodPost, "", capabilities, &session)
		if errors.Is(err, context.DeadlineExceeded) {
			base = servertest.WebKit(all)
			w.session = base + "/session"
			err = w.call(http.MethodPost, "", capabilities, &session)
		}
		if err != nil {
			return nil, err
		}
		w.session += "/" + session.SessionID
		t.Cleanup(func() { servertest.OK(t, w.call(http.MethodDelete, "", nil, nil)) })
		return w, nil
	}}
}

// call sends a command to the driver. command is a path below w.session.
func (w *webkitTab) call(method, command string, params object, result any) error {
	return w.callWithin(servertest.Patience, method, command, params, result)
}

func (w *webkitTab) callWithin(patience time.Duration, method, command string, params object, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	body, err := json.Marshal(params)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, w.session+command, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var got struct{ Value json.RawMessage }
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", command, got.Value)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(got.Value, result)
}

func (w *webkitTab) post(command string, params object) error {
	return w.call(http.MethodPost, command, params, nil)
}

func (w *webkitTab) open(address string) error { return w.post("/url", object{"url": address}) }

func (w *webkitTab) eval(expression string) (text string, err error) {
	var got struct{ Text, Failed string }
	err = w.call(http.MethodPost, "/execute/async", object{"args": []any{}, "script": `const done = arguments[0];
		(` + expression + `).then((text) => done({ text }), (e) => done({ failed: String(e) }))`}, &got)
	if err == nil && got.Failed != "" {
		err = errors.New(got.Failed)
	}
	return got.Text, err
}

func (w *webkitTab) keys(text string) error {
	return w.post("/actions", object{"actions": keyActions(text)})
}

// sizeOncePainted waits until the page has been painted, and returns the size of the window without
// its bar.
const sizeOncePainted = `new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() =>
	go(JSON.stringify({ width: innerWidth, height: innerHeight })))))`

// show sets the size of the window twice, because only the first time shows how high the window's
// bar is.
func (w *webkitTab) show(look Look) error {
	if look.Dark != w.look.Dark {
		return errColours
	}
	w.look = look
	var inner struct{ Width, Height int64 }
	for range 2 {
		bar := look.Height - inner.Height
		if inner.Height == 0 {
			bar = 0
		}
		if err := w.post("/window/rect", object{"width": look.Width, "height": look.Height + bar}); err != nil {
			return err
		}
		text, err := w.eval(sizeOncePainted)
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text), &inner); err != nil {
			return err
		}
	}
	if inner.Width != look.Width {
		return fmt.Errorf("the window is %d px wide and not %d", inner.Width, look.Width)
	}
	return nil
}

// picture returns a picture of the whole page. For the picture, the window gets the page's height.
func (w *webkitTab) picture() (png []byte, err error) {
	before, whole := w.look, w.look
	text, err := w.eval("(async () => String(document.documentElement.scrollHeight))()")
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Sscan(text, &whole.Height); err != nil {
		return nil, err
	}
	err = errors.Join(w.show(whole), w.call(http.MethodGet, "/screenshot", nil, &png), w.show(before))
	return png, err
}
