package oauth_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/deliver/delivery/oauth"
	"sendcode/internal/deliver/delivery/oauth/oauthtest"
	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/kit/servertest"
)

// Each answer leads to a token, or to an error that the operator can act on, without the secret.
func TestSourceTokenByAnswer(t *testing.T) {
	elsewhere := oauthtest.Start(t, oauthtest.Gives("of another server", 60))
	for name, c := range map[string]struct {
		answer oauthtest.Answer
		want   string
	}{
		"a token": {oauthtest.Gives("a-Token.1", 3599), "a-Token.1"},
		"a life in quotes": {oauthtest.Answer{
			Status: 200,
			Body:   `{"token_type":"bearer","expires_in":"3599","access_token":"a-Token.1"}`,
		}, "a-Token.1"},
		"an empty life":       {life(`""`), "a-Token.1"},
		"a life with a unit":  {life(`"1h"`), "a-Token.1"},
		"a life that is true": {life(`true`), "a-Token.1"},
		"a life of null":      {life(`null`), "a-Token.1"},
		"a life with a dot":   {life(`3599.5`), "a-Token.1"},
		"a life in a list":    {life(`[3599]`), "a-Token.1"},
		"a life below zero":   {life(`"-1"`), "a-Token.1"},
		"a byte order mark":   {oauthtest.Answer{Status: 200, Body: "\ufeff" + life(`60`).Body}, "a-Token.1"},
		"a life of centuries": {oauthtest.Gives("a-Token.1", 9223372037), "a-Token.1"},
		"no life":             {oauthtest.Answer{Status: 200, Body: `{"token_type":"Bearer","access_token":"a-Token.1"}`}, "a-Token.1"},
		"a wrong secret": {
			oauthtest.Refuses("invalid_client", "7000215"),
			"refuses: invalid_client, AADSTS7000215: the client's secret is wrong",
		},
		"an expired secret":      {oauthtest.Refuses("invalid_client", "7000222"), "AADSTS7000222: the client's secret has expired"},
		"no registration":        {oauthtest.Refuses("unauthorized_client", "700016"), "AADSTS700016: the app registration is missing"},
		"no tenant":              {oauthtest.Refuses("invalid_request", "90002"), "AADSTS90002: the tenant does not exist"},
		"a wrong scope":          {oauthtest.Refuses("invalid_scope", "1002012"), "AADSTS1002012: the scope is wrong"},
		"no consent":             {oauthtest.Refuses("invalid_grant", "65001"), "AADSTS65001: the API permission SMTP.SendAsApp"},
		"an unknown number":      {oauthtest.Refuses("invalid_grant", "50999"), "AADSTS50999: look the number up"},
		"a private error":        {oauthtest.Refuses(oauthtest.Secret, "700016"), "refuses: status 400, AADSTS700016"},
		"an error with 200":      {oauthtest.Answer{Status: 200, Body: `{"error":"invalid_client"}`}, "refuses: invalid_client"},
		"too many":               {oauthtest.Answer{Status: 429, Body: "slow down, " + oauthtest.Secret}, "refuses: status 429"},
		"a page of a proxy":      {oauthtest.Answer{Status: 502, Body: "<html>"}, "refuses: status 502"},
		"a page with 200":        {oauthtest.Answer{Status: 200, Body: "\n<!doctype html>"}, "answers with a page: is token_url right?"},
		"no JSON":                {oauthtest.Answer{Status: 200, Body: "t0ken"}, "is not JSON"},
		"nothing":                {oauthtest.Answer{Status: 200}, "is not JSON"},
		"no token":               {oauthtest.Answer{Status: 200, Body: `{"id_token":"a"}`}, "has no access_token"},
		"no type":                {oauthtest.Answer{Status: 200, Body: `{"access_token":"a-Token.1"}`}, "a-Token.1"},
		"another kind of token":  {oauthtest.Answer{Status: 200, Body: `{"token_type":"mac","access_token":"a"}`}, "is not a bearer token"},
		"a token with a command": {oauthtest.Gives("a\r\nQUIT", 3599), "line breaks"},
		"too long a token":       {oauthtest.Gives(strings.Repeat("a", 9000), 3599), "more than 8 KB"},
		"too much":               {oauthtest.Answer{Status: 200, Body: strings.Repeat(" ", 70000)}, "the answer is too long"},
		"a redirect":             {oauthtest.Answer{Status: 307, Location: elsewhere.Client.TokenURL}, "refuses: status 307"},
	} {
		t.Run(name, func(t *testing.T) {
			token, err := oauthtest.Start(t, c.answer).Source().Token(t.Context(), "")
			if got := token + fmt.Sprint(err); !strings.Contains(got, c.want) || strings.Contains(got, oauthtest.Secret) ||
				(token == "") == (err == nil) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	servertest.Same(t, "requests at another server", elsewhere.Requests(), 0)
	var none *oauth.Source
	if _, err := none.Token(t.Context(), ""); err == nil {
		t.Error("a token without a client")
	}
}

// bubble runs a test in virtual time, with a server and a started source. reported returns what
// Start has reported.
func bubble(t *testing.T, test func(t *testing.T, server *oauthtest.Server, source *oauth.Source, reported func() string),
	answers ...oauthtest.Answer,
) {
	t.Helper()
	servertest.Bubble(t, func(t *testing.T) {
		server := oauthtest.New(t, answers...)
		source := oauth.New(server.Client)
		all := oauth.Sources{"m365": source}
		var mu sync.Mutex
		var lines []string
		all.Start(func(client string, failure error) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, fmt.Sprint(client, " ", failure))
		})
		defer func() {
			servertest.OK(t, all.Close())
			asked := server.Requests()
			if _, err := source.Token(t.Context(), ""); err == nil && server.Requests() > asked {
				t.Error("a closed source asks")
			}
			<-time.After(providerhttp.IdleTimeout) // no connection outlasts the bubble
			synctest.Wait()
		}()
		test(t, server, source, func() string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(lines, "; ")
		})
	})
}

// sleepUntil waits until began.Add(after), and until whatever is due by then has run.
func sleepUntil(began time.Time, after time.Duration) {
	time.Sleep(time.Until(began.Add(after))) // moves only the bubble's clock
	synctest.Wait()
}

// expectToken fails the test unless the source returns this token, or an error with this text,
// without a wait.
func expectToken(t *testing.T, source *oauth.Source, want string) {
	t.Helper()
	began := time.Now()
	token, err := source.Token(t.Context(), "")
	if got := fmt.Sprint(token, err); !strings.Contains(got, want) || time.Since(began) > 0 {
		t.Errorf("%q after %v, want %q", got, time.Since(began), want)
	}
}

// A token of 60 s is renewed after 48 s, by one request. Meanwhile, callers get the old token
// without a wait.
func TestSourceTokenIsRenewedBeforeItsEnd(t *testing.T) {
	second := oauthtest.Gives("second", 60)
	second.After = 5 * time.Second
	bubble(t, func(t *testing.T, server *oauthtest.Server, source *oauth.Source, reported func() string) {
		began := time.Now()
		var callers sync.WaitGroup
		for range 20 { // all wait for the first token
			callers.Go(func() {
				if token, err := source.Token(t.Context(), ""); token != "first" {
					t.Errorf("%q, %v", token, err)
				}
			})
		}
		callers.Wait()
		sleepUntil(began, 48*time.Second-1)
		servertest.Same(t, "requests before", server.Requests(), 1)
		sleepUntil(began, 50*time.Second)
		servertest.Same(t, "requests", server.Requests(), 2)
		expectToken(t, source, "first")
		sleepUntil(began, 53*time.Second)
		expectToken(t, source, "second")
		servertest.Same(t, "reported", reported(), "")
	}, oauthtest.Gives("first", 60), second)
}

// If a server does not answer, or refuses, the old token is used until it expires. Then a call
// fails at once and says why. The next token comes within 20 s after the server works again.
func TestSourceTokenDuringAnOutage(t *testing.T) {
	for name, c := range map[string]struct {
		answer oauthtest.Answer
		why    string
	}{
		"hangs":   {oauthtest.Hangs, "the token server: i/o timeout"},
		"refuses": {oauthtest.Refuses("invalid_client", "7000222"), "the token server refuses: invalid_client, AADSTS7000222"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *oauthtest.Server, source *oauth.Source, reported func() string) {
				began := time.Now()
				_, _ = source.Token(t.Context(), "")
				sleepUntil(began, 59*time.Second)
				expectToken(t, source, "first")
				_, why := source.Problem()
				servertest.Same(t, "the problem while there is a token", why, nil)
				if !strings.HasPrefix(reported(), "m365 "+c.why) {
					t.Errorf("reported %q", reported())
				}
				sleepUntil(began, 61*time.Second)
				expectToken(t, source, c.why)
				since, why := source.Problem()
				if why == nil || since.Sub(began) != 60*time.Second {
					t.Errorf("%v since %v", why, since.Sub(began))
				}
				asked := server.Requests()
				sleepUntil(began, 161*time.Second)
				if n := server.Requests() - asked; n < 5 || n > 10 {
					t.Errorf("%d requests in 100 s", n)
				}
				server.Answer(oauthtest.Gives("next", 3600))
				sleepUntil(began, 181*time.Second)
				expectToken(t, source, "next")
				if lines := strings.Split(reported(), "; "); len(lines) != 2 || lines[1] != "m365 <nil>" {
					t.Errorf("reported %q", lines)
				}
			}, oauthtest.Gives("first", 60), c.answer)
		})
	}
}

// The first request ends after 10 s at the latest. Calls that wait for it get its error.
func TestSourceFirstRequestEndsAfter10Seconds(t *testing.T) {
	bubble(t, func(t *testing.T, server *oauthtest.Server, source *oauth.Source, _ func() string) {
		began := time.Now()
		_, err := source.Token(t.Context(), "")
		if err == nil || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	}, oauthtest.Hangs)
}

// Tokens that are valid for one second do not cause a request each second.
func TestSourceTokenOfOneSecond(t *testing.T) {
	bubble(t, func(t *testing.T, server *oauthtest.Server, _ *oauth.Source, _ func() string) {
		sleepUntil(time.Now(), 9*time.Second)
		servertest.Same(t, "requests in 9 s", server.Requests(), 2)
	}, oauthtest.Gives("x", 1))
}

// However often a mail server refuses a token, the token is renewed only once before its planned
// renewal.
func TestSourceRenewsARefusedTokenOnce(t *testing.T) {
	bubble(t, func(t *testing.T, server *oauthtest.Server, source *oauth.Source, _ func() string) {
		began := time.Now()
		refuse := func(refused, want string) {
			t.Helper()
			var callers sync.WaitGroup
			for range 9 {
				callers.Go(func() {
					token, err := source.Token(t.Context(), refused)
					servertest.Same(t, "instead of "+refused, token, want)
					servertest.Same(t, "an error", err != nil, want == "")
				})
			}
			callers.Wait()
		}
		refuse("", "first")
		refuse("first", "second")
		refuse("first", "second")
		refuse("second", "")
		servertest.Same(t, "requests", server.Requests(), 2)
		sleepUntil(began, 49*time.Second)
		refuse("second", "third")
		refuse("third", "fourth")
		refuse("fourth", "")
		servertest.Same(t, "requests after the renewal in time", server.Requests(), 4)
	}, oauthtest.Gives("first", 60), oauthtest.Gives("second", 60), oauthtest.Gives("third", 60), oauthtest.Gives("fourth", 60))
}

// LoginProblem tells the operator why a login was refused.
func TestLoginProblem(t *testing.T) {
	source := oauth.New(oauth.Client{Scope: oauth.MicrosoftScope})
	for token, want := range map[string]string{
		oauthtest.JWT(``): "SMTP.SendAsApp", oauthtest.JWT(`"Mail.Send"`): "an administrator's consent",
		oauthtest.JWT(`"SMTP.SendAsApp"`): "New-ServicePrincipal", "opaque": "Add-MailboxPermission",
	} {
		if got := source.LoginProblem("5.7.3", token); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := source.LoginProblem("5.7.139", ""); !strings.Contains(got, "Set-CASMailbox") {
		t.Error(got)
	}
	if got := oauth.New(oauth.Client{Scope: "mail"}).LoginProblem("5.7.8", ""); strings.Contains(got, "Exchange") {
		t.Error(got)
	}
}

// Each kind of client makes the request that its server expects; the server checks this. The error
// says what the operator must do, and has no secret.
func TestSourceTokenOfEachKind(t *testing.T) {
	does := map[string]string{"account": "subject is not a mailbox of the domain"}
	for _, kind := range oauthtest.Kinds {
		for _, scope := range []string{oauth.MicrosoftScope, "mail"} {
			server := oauthtest.Start(t, oauthtest.Gives("a-Token.1", 3599)).As(kind)
			server.Client.Scope = scope
			token, err := server.Source().Token(t.Context(), "")
			servertest.OK(t, err)
			servertest.Same(t, kind, token, "a-Token.1")
			_, err = oauthtest.Start(t, oauthtest.Refuses("invalid_grant", "65001")).As(kind).Source().Token(t.Context(), "")
			got := fmt.Sprint(err)
			if !strings.Contains(got, does[kind]) || !strings.Contains(got, "an administrator's consent") ||
				strings.Contains(got, oauthtest.Secret) {
				t.Errorf("%s: %q", kind, got)
			}
		}
	}
}

// A command may print a token in several forms. The operator gets an error without the printed text
// and without the command's standard error.
func TestCommandTokens(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"a token":             {script: "echo t0ken", want: "t0ken<nil>"},
		"JSON":                {script: `echo '{"access_token":"t0ken","expires_in":60}'`, want: "t0ken<nil>"},
		"a byte order mark":   {script: `printf '\357\273\277t0ken\n'`, want: "t0ken<nil>"},
		"a mark and JSON":     {script: `printf '\357\273\277{"access_token":"t0ken","expires_in":""}'`, want: "t0ken<nil>"},
		"a life in words":     {script: `echo '{"access_token":"t0ken","expires_in":"soon"}'`, want: "t0ken<nil>"},
		"a life that is true": {script: `echo '{"access_token":"t0ken","expires_in":true}'`, want: "t0ken<nil>"},
		"no token":            {script: "echo '{\"error\":\"s3cret\"}'", want: "JSON without access_token"},
		"half of one":         {script: `echo '{"access_token":"s3cret'`, want: "JSON without access_token"},
		"nothing":             {script: "true", want: "it printed nothing"},
		"two lines":           {script: "echo s3cret; echo s3cret", want: "other characters that no token has"},
		"a child":             {script: "sleep 3600 & echo t0ken", want: "t0ken<nil>"},
		"too much":            {script: "while echo s3cret; do :; done", want: "more than 16 KB"},
		"it fails":            {script: "echo s3cret; echo s3cret >&2; exit 3", want: "exit status 3"},
		"its environment": {
			script: "[ -n \"$PATH\" ] && env | grep -vE '^(PATH|HOME|PWD|SHLVL|_|OLDPWD)='; echo t0ken",
			want:   "t0ken<nil>",
		},
		"no shell reads args": {script: "echo $#", want: "1<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SENDCODE_API_KEY", "s3cret")
			source := oauth.New(oauth.Client{Command: []string{"/bin/sh", "-c", c.script, "sh", "; a $b `c`"}})
			token, err := source.Token(t.Context(), "")
			if got := token + fmt.Sprint(err); !strings.HasSuffix(got, c.want) || strings.Contains(got, "s3cret") {
				t.Errorf("%q, want %q", got, c.want)
			}
			servertest.OK(t, oauth.Sources{"": source}.Close())
		})
	}
	_, err := oauth.New(oauth.Client{Command: []string{"/not/there"}}).Token(t.Context(), "")
	if got := fmt.Sprint(err); !strings.HasSuffix(got, "no such file or directory") || strings.Contains(got, "/not") {
		t.Errorf("%q", got)
	}
}

// Each mistake in the file of a service account gives an error that quotes no part of the file. A
// byte order mark is no mistake.
func TestParseAccount(t *testing.T) {
	right := oauthtest.Account("https://x.example/token")
	if _, err := oauth.ParseAccount([]byte("\ufeff" + right)); err != nil {
		t.Error(err)
	}
	if _, err := oauth.ParseAccount([]byte(strings.ReplaceAll(right, `\n`, `\\n`))); err != nil {
		t.Errorf("line breaks escaped twice: %v", err)
	}
	for want, change := range map[string][]string{
		"it is not JSON":                {"{", "x{"},
		"its type differs":              {"service_account", "another"},
		"has a person's login":          {"service_account", "authorized_user"},
		"has a workload identity":       {"service_account", "external_account"},
		"the right to act as":           {"service_account", "impersonated_service_account"},
		"this one has an OAuth client":  {"{", `{"installed":{"client_id":"x"},`},
		"private_key is missing":        {`"private_key"`, `"key"`},
		"private_key is not PEM":        {"-----BEGIN", "BEGIN"},
		"private_key is not an RSA key": {"MII", "AII"},
		"client_email, token_uri or ":   {`"client_email"`, `"email"`},
	} {
		text := strings.Replace(right, change[0], change[1], 1)
		if _, err := oauth.ParseAccount([]byte(text)); text == right || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Close ends a command that still runs.
func TestSourcesCloseEndsTheCommand(t *testing.T) {
	source := oauth.New(oauth.Client{Command: []string{"/bin/sh", "-c", "sleep 3600 & echo t0ken; wait"}})
	all := oauth.Sources{"": source}
	all.Start(func(string, error) {})
	servertest.OK(t, all.Close())
	if _, err := source.Token(t.Context(), ""); err == nil {
		t.Error("a token of a command that did not end")
	}
}

// A command that has ended leaves no process behind: the pipe that its child had open is closed.
func TestCommandLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	servertest.OK(t, syscall.Mkfifo(path, 0o600))
	pipe, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	servertest.OK(t, err)
	defer func() { _ = pipe.Close() }()
	source := oauth.New(oauth.Client{
		Command: []string{"/bin/sh", "-c", `exec 3>"$1"; echo begun >&3; sleep 3600 >/dev/null 2>&1 & echo t0ken`, "sh", path},
	})
	token, err := source.Token(t.Context(), "")
	servertest.OK(t, err)
	servertest.Same(t, "the token", token, "t0ken")
	servertest.OK(t, oauth.Sources{"": source}.Close())
	servertest.OK(t, pipe.SetReadDeadline(time.Now().Add(time.Minute)))
	text, err := io.ReadAll(pipe)
	servertest.OK(t, err)
	servertest.Same(t, "the pipe, to its end", string(text), "begun\n")
}

// life returns the answer of a token server with this expires_in.
func life(field string) oauthtest.Answer {
	return oauthtest.Answer{Status: 200, Body: `{"token_type":"bearer","expires_in":` + field + `,"access_token":"a-Token.1"}`}
}

// A token is used for as long as the field says, if the field can be read.
func TestLifeIn(t *testing.T) {
	for field, want := range map[string]int64{
		`60`: 60, `"60"`: 60, `" 60 "`: 60, `60.9`: 60, `6e1`: 60, `"1h"`: 3600, `"90s"`: 90, `9223372037854775807`: 86400, `1e300`: 86400,
		`""`: 0, `"soon"`: 0, `true`: 0, `null`: 0, `{}`: 0, `-1`: 0, `0`: 0, `"NaN"`: 0,
	} {
		servertest.Same(t, field, oauth.LifeIn([]byte(field)), want)
	}
}
