package browsertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"sendcode/internal/kit/servertest"
)

// firefoxSession is a session of WebDriver BiDi (https://w3c.github.io/webdriver-bidi/).
type firefoxSession struct {
	mu         sync.Mutex
	connection *websocket.Conn
	last       int // ID of the last command
}

type object = map[string]any

// firefoxSettings are the settings with which a Firefox is started, because BiDi has no command for
// them that every Firefox in Debian understands.
type firefoxSettings struct{ dark, noCookies bool }

// Firefox returns a browser that runs as up to four Firefoxes: one for each colour scheme, with
// cookies and without. Each starts when its first tab is opened.
func Firefox(t testing.TB) Browser {
	t.Helper()
	start := servertest.Firefox(t)
	var mu sync.Mutex
	started := map[firefoxSettings]*firefoxSession{}
	session := func(settings firefoxSettings) (*firefoxSession, error) {
		mu.Lock()
		defer mu.Unlock()
		if s := started[settings]; s != nil {
			return s, nil
		}
		scheme, cookies := 1, 5 // light; cookies are kept for each site separately, which is the default
		if settings.dark {
			scheme = 0
		}
		if settings.noCookies {
			cookies = 2
		}
		// Firefox opens its list of downloads when a page offers a file. The list takes the focus
		// from the page, so Space would press nothing there.
		addr, err := start(fmt.Sprintf("user_pref(%q, %d);\nuser_pref(%q, %d);\nuser_pref(%q, false);\n",
			"layout.css.prefers-color-scheme.content-override", scheme, "network.cookie.cookieBehavior", cookies,
			"browser.download.alwaysOpenPanel"))
		if err != nil {
			return nil, err
		}
		connection, err := websocket.Dial("ws://"+addr+"/session", "", "http://"+addr)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = connection.Close() }) // the browser may have closed it
		s := &firefoxSession{connection: connection}
		if err := s.call("session.new", object{"capabilities": object{}}, nil); err != nil {
			return nil, err
		}
		started[settings] = s
		return s, nil
	}
	return Browser{func(t testing.TB, look Look) (driver, error) {
		t.Helper()
		settings := firefoxSettings{look.Dark, look.NoCookies}
		s, err := session(settings)
		if err != nil {
			return nil, err
		}
		return s.tab(t, settings)
	}}
}

// call makes the browser carry out a command. The session subscribes to no events, so it ignores
// everything except answers.
func (s *firefoxSession) call(method string, params object, result any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	if err := errors.Join(s.connection.SetDeadline(time.Now().Add(servertest.Patience)),
		websocket.JSON.Send(s.connection, object{"id": s.last, "method": method, "params": params})); err != nil {
		return err
	}
	for {
		var answer struct {
			ID             int
			Error, Message string
			Result         json.RawMessage
		}
		switch err := websocket.JSON.Receive(s.connection, &answer); {
		case err != nil:
			return err
		case answer.ID != s.last:
		case answer.Error != "":
			return fmt.Errorf("%s: %s: %s", method, answer.Error, answer.Message)
		case result != nil:
			return json.Unmarshal(answer.Result, result)
		default:
			return nil
		}
	}
}

func (s *firefoxSession) evaluate(context, expression string) (string, error) {
	var answer struct {
		Result           struct{ Value string }
		ExceptionDetails struct{ Text string }
	}
	err := s.call("script.evaluate", object{"expression": expression, "target": object{"context": context}, "awaitPromise": true}, &answer)
	if err == nil && answer.ExceptionDetails.Text != "" {
		err = errors.New(answer.ExceptionDetails.Text)
	}
	return answer.Result.Value, err
}

// firefoxTab implements driver.
type firefoxTab struct {
	*firefoxSession
	context  string
	settings firefoxSettings
}

func (s *firefoxSession) tab(t testing.TB, settings firefoxSettings) (driver, error) {
	t.Helper()
	var own struct{ UserContext string }
	if err := s.call("browser.createUserContext", object{}, &own); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		servertest.OK(t, s.call("browser.removeUserContext", object{"userContext": own.UserContext}, nil))
	})
	var made struct{ Context string }
	err := s.call("browsingContext.create", object{"type": "tab", "userContext": own.UserContext}, &made)
	return &firefoxTab{s, made.Context, settings}, err
}

func (f *firefoxTab) open(address string) error {
	return f.call("browsingContext.navigate", object{"context": f.context, "url": address, "wait": "complete"}, nil)
}

func (f *firefoxTab) eval(expression string) (string, error) {
	return f.evaluate(f.context, expression)
}

func (f *firefoxTab) keys(text string) error {
	return f.call("input.performActions", object{"context": f.context, "actions": keyActions(text)}, nil)
}

func (f *firefoxTab) show(look Look) error {
	if look.Dark != f.settings.dark {
		return errors.New("the colours of this tab are fixed")
	}
	return f.call("browsingContext.setViewport",
		object{"context": f.context, "viewport": object{"width": look.Width, "height": look.Height}}, nil)
}

func (f *firefoxTab) picture() ([]byte, error) {
	var shot struct{ Data []byte }
	err := f.call("browsingContext.captureScreenshot", object{"context": f.context, "origin": "document"}, &shot)
	return shot.Data, err
}
