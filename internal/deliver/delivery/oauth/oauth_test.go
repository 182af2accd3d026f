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
	"sendcode/internal/kit/servertest"
)

// What the operator hears of each answer. Nothing shows the secret.
func TestAnswers(t *testing.T) {
	const no = "the answer has no token that can be used"
	elsewhere := oauthtest.Start(t, oauthtest.Gives("of another server", 60))
	for name, c := range map[string]struct {
		answer oauthtest.Answer
		says   string
	}{
		"a token":                {oauthtest.Gives("a-Token.1", 3599), "a-Token.1"},
		"a life in quotes":       {oauthtest.Answer{Status: 200, Body: `{"token_type":"bearer","expires_in":"3599","access_token":"a-Token.1"}`}, "a-Token.1"},
		"a life of centuries":    {oauthtest.Gives("a-Token.1", 9223372037), "a-Token.1"},
		"no life":                {oauthtest.Answer{Status: 200, Body: `{"token_type":"Bearer","access_token":"a-Token.1"}`}, "a-Token.1"},
		"a wrong secret":         {oauthtest.Refuses("invalid_client", "7000215"), "refuses: invalid_client, AADSTS7000215: the client's secret is wrong"},
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
		"a page with 200":        {oauthtest.Answer{Status: 200, Body: "<html>"}, no},
		"another kind of token":  {oauthtest.Answer{Status: 200, Body: `{"token_type":"mac","access_token":"a"}`}, no},
		"a token with a command": {oauthtest.Gives("a\r\nQUIT", 3599), no},
		"too long a token":       {oauthtest.Gives(strings.Repeat("a", 9000), 3599), no},
		"too much":               {oauthtest.Answer{Status: 200, Body: strings.Repeat(" ", 70000)}, "the answer is too long"},
		"a redirect":             {oauthtest.Answer{Status: 307, Location: elsewhere.Client.TokenURL}, "refuses: status 307"},
	} {
		t.Run(name, func(t *testing.T) {
			token, err := oauthtest.Start(t, c.answer).Source().Token(t.Context(), "")
			if said := token + fmt.Sprint(err); !strings.Contains(said, c.says) || strings.Contains(said, oauthtest.Secret) || (token == "") == (err == nil) {
				t.Errorf("%q, want %q", said, c.says)
			}
		})
	}
	servertest.Same(t, "requests at another server", elsewhere.Asked(), 0)
	var none *oauth.Source
	if _, err := none.Token(t.Context(), ""); err == nil {
		t.Error("a token without a client")
	}
}

// bubble runs a test in virtual time, with a server and a started source. said has what Start reports.
func bubble(t *testing.T, test func(t *testing.T, server *oauthtest.Server, source *oauth.Source, said func() string), answers ...oauthtest.Answer) {
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
			asked := server.Asked()
			if _, err := source.Token(t.Context(), ""); err == nil && server.Asked() > asked {
				t.Error("a closed source asks")
			}
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

// at waits until so long after began.
func at(began time.Time, after time.Duration) {
	time.Sleep(time.Until(began.Add(after))) // of the bubble
	synctest.Wait()
}

// expectToken wants this token, or an error that says so, without a wait.
func expectToken(t *testing.T, source *oauth.Source, want string) {
	t.Helper()
	began := time.Now()
	token, err := source.Token(t.Context(), "")
	if said := fmt.Sprint(token, err); !strings.Contains(said, want) || time.Since(began) > 0 {
		t.Errorf("%q after %v, want %q", said, time.Since(began), want)
	}
}

// A token of 60 s is renewed after 48 s, by one request. Meanwhile the old one serves, without a wait.
func TestRenewal(t *testing.T) {
	second := oauthtest.Gives("second", 60)
	second.After = 5 * time.Second
	bubble(t, func(t *testing.T, server *oauthtest.Server, source *oauth.Source, said func() string) {
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
		at(began, 48*time.Second-1)
		servertest.Same(t, "requests before", server.Asked(), 1)
		at(began, 50*time.Second)
		servertest.Same(t, "requests", server.Asked(), 2)
		expectToken(t, source, "first")
		at(began, 53*time.Second)
		expectToken(t, source, "second")
		servertest.Same(t, "said", said(), "")
	}, oauthtest.Gives("first", 60), second)
}

// A server that answers nothing, or refuses, leaves the old token to its end. After that, a call fails at once and says why.
// The next token comes within 20 s of the server's return.
func TestOutage(t *testing.T) {
	for name, c := range map[string]struct {
		answer oauthtest.Answer
		why    string
	}{
		"hangs":   {oauthtest.Hangs, "the token server: i/o timeout"},
		"refuses": {oauthtest.Refuses("invalid_client", "7000222"), "the token server refuses: invalid_client, AADSTS7000222"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *oauthtest.Server, source *oauth.Source, said func() string) {
				began := time.Now()
				_, _ = source.Token(t.Context(), "")
				at(began, 59*time.Second)
				expectToken(t, source, "first")
				_, why := source.Problem()
				servertest.Same(t, "the problem while there is a token", why, nil)
				if !strings.HasPrefix(said(), "m365 "+c.why) {
					t.Errorf("said %q", said())
				}
				at(began, 61*time.Second)
				expectToken(t, source, c.why)
				since, why := source.Problem()
				if why == nil || since.Sub(began) != 60*time.Second {
					t.Errorf("%v since %v", why, since.Sub(began))
				}
				asked := server.Asked()
				at(began, 161*time.Second)
				if n := server.Asked() - asked; n < 5 || n > 10 {
					t.Errorf("%d requests in 100 s", n)
				}
				server.Answer(oauthtest.Gives("next", 3600))
				at(began, 181*time.Second)
				expectToken(t, source, "next")
				if lines := strings.Split(said(), "; "); len(lines) != 2 || lines[1] != "m365 <nil>" {
					t.Errorf("said %q", lines)
				}
			}, oauthtest.Gives("first", 60), c.answer)
		})
	}
}

// The first request is bounded too: calls that wait for it get its error.
func TestFirstRequestIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, server *oauthtest.Server, source *oauth.Source, _ func() string) {
		began := time.Now()
		_, err := source.Token(t.Context(), "")
		if err == nil || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	}, oauthtest.Hangs)
}

// Tokens of a second do not burden the token server.
func TestShortestLife(t *testing.T) {
	bubble(t, func(t *testing.T, server *oauthtest.Server, _ *oauth.Source, _ func() string) {
		at(time.Now(), 9*time.Second)
		servertest.Same(t, "requests in 9 s", server.Asked(), 2)
	}, oauthtest.Gives("x", 1))
}

// A mail server's refusals renew a token once until its time is up, however many there are.
func TestRefusedTokens(t *testing.T) {
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
		servertest.Same(t, "requests", server.Asked(), 2)
		at(began, 49*time.Second)
		refuse("second", "third")
		refuse("third", "fourth")
		refuse("fourth", "")
		servertest.Same(t, "requests after the renewal in time", server.Asked(), 4)
	}, oauthtest.Gives("first", 60), oauthtest.Gives("second", 60), oauthtest.Gives("third", 60), oauthtest.Gives("fourth", 60))
}

// What the operator hears of a refused login.
func TestLoginProblem(t *testing.T) {
	source := oauth.New(oauth.Client{Scope: oauth.MicrosoftScope})
	for token, says := range map[string]string{
		oauthtest.JWT(``): "SMTP.SendAsApp", oauthtest.JWT(`"Mail.Send"`): "an administrator's consent",
		oauthtest.JWT(`"SMTP.SendAsApp"`): "New-ServicePrincipal", "opaque": "Add-MailboxPermission",
	} {
		if said := source.LoginProblem("5.7.3", token); !strings.Contains(said, says) {
			t.Errorf("%q, want %q", said, says)
		}
	}
	if said := source.LoginProblem("5.7.139", ""); !strings.Contains(said, "Set-CASMailbox") {
		t.Error(said)
	}
	if said := oauth.New(oauth.Client{Scope: "mail"}).LoginProblem("5.7.8", ""); strings.Contains(said, "Exchange") {
		t.Error(said)
	}
}

// Each kind asks as its server wants to be asked, which the server judges. The operator hears what to do, and no secret.
func TestKinds(t *testing.T) {
	does := map[string]string{"account": "subject is no mailbox of the domain", "refresh": "a person must log in anew"}
	for _, kind := range oauthtest.Kinds {
		for _, scope := range []string{oauth.MicrosoftScope, "mail"} {
			server := oauthtest.Start(t, oauthtest.Gives("a-Token.1", 3599)).As(kind)
			server.Client.Scope = scope
			token, err := server.Source().Token(t.Context(), "")
			servertest.Same(t, kind, fmt.Sprint(token, err), "a-Token.1<nil>")
			_, err = oauthtest.Start(t, oauthtest.Refuses("invalid_grant", "700027")).As(kind).Source().Token(t.Context(), "")
			said := fmt.Sprint(err)
			if !strings.Contains(said, does[kind]) || !strings.Contains(said, "the certificate is not that of the app registration") || strings.Contains(said, oauthtest.Secret) {
				t.Errorf("%s: %q", kind, said)
			}
		}
	}
}

// A command and a file: what they may say, and what the operator hears. Neither their text nor standard error shows.
func TestLocalTokens(t *testing.T) {
	for name, c := range map[string]struct{ script, text, says string }{
		"a token":             {script: "echo t0ken", text: "t0ken\n", says: "t0ken<nil>"},
		"JSON":                {script: `echo '{"access_token":"t0ken","expires_in":60}'`, text: `{"access_token":"t0ken","expires_in":"60"}`, says: "t0ken<nil>"},
		"no token":            {script: "echo '{\"error\":\"s3cret\"}'", text: `{"token":"s3cret"}`, says: "JSON without access_token"},
		"half of one":         {script: `echo '{"access_token":"s3cret'`, text: `{"access_token":"s3cret`, says: "JSON without access_token"},
		"nothing":             {script: "true", text: " ", says: "no token that can be used"},
		"two lines":           {script: "echo s3cret; echo s3cret", text: "s3cret\nQUIT", says: "no token that can be used"},
		"too much":            {script: "while echo s3cret; do :; done", text: strings.Repeat("s3cret ", 3000), says: "more than 16 KB"},
		"it fails":            {script: "echo s3cret; echo s3cret >&2; exit 3", says: "exit status 3"},
		"its environment":     {script: "[ -n \"$PATH\" ] && env | grep -vE '^(PATH|HOME|PWD|SHLVL|_|OLDPWD)='; echo t0ken", says: "t0ken<nil>"},
		"no shell reads args": {script: "echo $#", says: "1<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SENDCODE_API_KEY", "s3cret")
			path := filepath.Join(t.TempDir(), "token")
			servertest.OK(t, os.WriteFile(path, []byte(c.text), 0o600))
			clients := []oauth.Client{{Command: []string{"/bin/sh", "-c", c.script, "sh", "; a $b `c`"}}, {File: path}}
			if c.text == "" {
				clients = clients[:1]
			}
			for _, client := range clients {
				source := oauth.New(client)
				token, err := source.Token(t.Context(), "")
				if said := token + fmt.Sprint(err); !strings.HasSuffix(said, c.says) || strings.Contains(said, "s3cret") {
					t.Errorf("%q, want %q", said, c.says)
				}
				servertest.OK(t, oauth.Sources{"": source}.Close())
			}
		})
	}
	for _, client := range []oauth.Client{{Command: []string{"/not/there"}}, {File: "/not/there"}} {
		_, err := oauth.New(client).Token(t.Context(), "")
		if said := fmt.Sprint(err); !strings.HasSuffix(said, "no such file or directory") || strings.Contains(said, "/not") {
			t.Errorf("%q", said)
		}
	}
}

// The end of the service ends a command, with all that it has started.
func TestCommandEnds(t *testing.T) {
	source := oauth.New(oauth.Client{Command: []string{"/bin/sh", "-c", "sleep 3600 & echo t0ken; wait"}})
	all := oauth.Sources{"": source}
	all.Start(func(string, error) {})
	servertest.OK(t, all.Close())
	if _, err := source.Token(t.Context(), ""); err == nil {
		t.Error("a token of a command that did not end")
	}
}

// A command that has ended leaves nothing behind: no process has the other end of a pipe that its child had.
func TestCommandLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	servertest.OK(t, syscall.Mkfifo(path, 0o600))
	pipe, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	servertest.OK(t, err)
	defer func() { _ = pipe.Close() }()
	source := oauth.New(oauth.Client{Command: []string{"/bin/sh", "-c", `exec 3>"$1"; echo begun >&3; sleep 3600 >/dev/null 2>&1 & echo t0ken`, "sh", path}})
	token, err := source.Token(t.Context(), "")
	servertest.Same(t, "the token", fmt.Sprint(token, err), "t0ken<nil>")
	servertest.OK(t, oauth.Sources{"": source}.Close())
	servertest.OK(t, pipe.SetReadDeadline(time.Now().Add(time.Minute)))
	text, err := io.ReadAll(pipe)
	servertest.Same(t, "the pipe, to its end", fmt.Sprint(string(text), err), "begun\n<nil>")
}

// Two processes with one refresh token use it once in each of a token's lives, and never at once. One that starts later
// takes the token that is there.
func TestOneProcessRenews(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		slow := oauthtest.Gives("token", 60)
		slow.After = 3 * time.Second
		server := oauthtest.New(t, slow).As("refresh")
		all := oauth.Sources{"a": oauth.New(server.Client), "b": oauth.New(server.Client)}
		all.Start(func(client string, failure error) { t.Errorf("%s: %v", client, failure) })
		defer func() { servertest.OK(t, all.Close()) }()
		for _, source := range all {
			token, err := source.Token(t.Context(), "")
			servertest.Same(t, "a token", fmt.Sprint(token, err), "token<nil>")
		}
		servertest.Same(t, "requests", server.Asked(), 1)
		time.Sleep(6 * time.Minute) // of the bubble
		if n := server.Asked(); n < 7 || n > 9 {
			t.Errorf("%d requests in 6 minutes", n)
		}
		asked := server.Asked()
		late := server.Source()
		expectToken(t, late, "token")
		servertest.Same(t, "requests of a third process", server.Asked(), asked)
	})
}

// What becomes of a login when something dies or is away at the wrong time. Each token of the server serves once.
func TestRefreshTokens(t *testing.T) {
	type rig struct {
		server *oauthtest.Server
		shared *oauthtest.Shared
	}
	start := func(t *testing.T, r rig, file string) *oauth.Source {
		t.Helper()
		client := r.server.Client
		client.RefreshToken = file
		source := oauth.New(client)
		t.Cleanup(func() { servertest.OK(t, oauth.Sources{"": source}.Close()) })
		return source
	}
	says := func(t *testing.T, source *oauth.Source, want string) {
		t.Helper()
		token, err := source.Token(t.Context(), "")
		if said := fmt.Sprint(token, err); !strings.Contains(said, want) || strings.Contains(said, oauthtest.Refresh) || strings.Contains(said, oauthtest.Secret) {
			t.Errorf("%q, want %q", said, want)
		}
	}
	for name, test := range map[string]func(t *testing.T, r rig){
		"a restart": func(t *testing.T, r rig) {
			says(t, start(t, r, oauthtest.Refresh), "token<nil>")
			time.Sleep(2 * time.Hour) // of the bubble
			says(t, start(t, r, oauthtest.Refresh), "token<nil>")
		},
		"the database does not take the new one": func(t *testing.T, r rig) {
			source := start(t, r, oauthtest.Refresh)
			r.shared.Break(false, true)
			says(t, source, "token<nil>")
			time.Sleep(25 * time.Second)
			servertest.Same(t, "requests", r.server.Asked(), 1)
			r.shared.Break(false, false)
			time.Sleep(11 * time.Second)
			says(t, start(t, r, oauthtest.Refresh), "token<nil>")
			servertest.Same(t, "requests, once it is kept", r.server.Asked(), 1)
			time.Sleep(2 * time.Hour)
			says(t, source, "token<nil>")
		},
		"no access token beside the new one": func(t *testing.T, r rig) {
			r.server.Answer(oauthtest.Gives("", 3600), oauthtest.Gives("token", 3600))
			source := start(t, r, oauthtest.Refresh)
			says(t, source, "no token that can be used")
			says(t, start(t, r, oauthtest.Refresh), "token<nil>")
			time.Sleep(11 * time.Second)
			says(t, source, "token<nil>")
			servertest.Same(t, "requests", r.server.Asked(), 2)
		},
		"no database": func(t *testing.T, r rig) {
			r.shared.Break(true, true)
			source := start(t, r, oauthtest.Refresh)
			says(t, source, "the database, which keeps the refresh token, is away")
			servertest.Same(t, "requests", r.server.Asked(), 0)
			r.shared.Break(false, false)
			time.Sleep(11 * time.Second)
			says(t, source, "token<nil>")
		},
		"killed before the server was asked": func(t *testing.T, r rig) {
			_, err := r.shared.Lease(t.Context(), 0, 20*time.Second) // of the process that is killed
			servertest.OK(t, err)
			source := start(t, r, oauthtest.Refresh)
			says(t, source, "another process asks the token server")
			time.Sleep(21 * time.Second)
			says(t, source, "token<nil>")
		},
		"killed between answer and write": func(t *testing.T, r rig) {
			r.server.LogIn() // the server has given another token, which no client has kept
			source := start(t, r, oauthtest.Refresh)
			says(t, source, "invalid_grant: a person must log in anew: write the new refresh token into refresh_token_file, and restart, AADSTS70000")
			file := r.server.LogIn()
			says(t, start(t, r, file), "token<nil>")
			time.Sleep(11 * time.Second)
			says(t, source, "token<nil>") // the other replica, with the old file
		},
		"an old file beside a new one": func(t *testing.T, r rig) {
			says(t, start(t, r, oauthtest.Refresh), "token<nil>")
			says(t, start(t, r, r.server.LogIn()), "token<nil>")
			old := start(t, r, oauthtest.Refresh)
			says(t, old, "invalid_grant")
			time.Sleep(11 * time.Second)
			says(t, old, "token<nil>")
		},
		"a new file beside a replica that has asked for nothing": func(t *testing.T, r rig) {
			r.server.KeepsOld = true
			says(t, start(t, r, oauthtest.Refresh), "token<nil>")
			replica := start(t, r, oauthtest.Refresh)
			says(t, replica, "token<nil>")
			time.Sleep(time.Minute)
			says(t, start(t, r, r.server.LogIn()), "token<nil>")
			login, _ := r.shared.Lease(t.Context(), -1, 0)
			time.Sleep(47*time.Minute + time.Second) // the replica renews
			says(t, replica, "token<nil>")
			kept, _ := r.shared.Lease(t.Context(), -1, 0)
			servertest.Same(t, "what is kept", string(kept.Tokens), string(login.Tokens))
			servertest.Same(t, "requests", r.server.Asked(), 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				server := oauthtest.New(t, oauthtest.Gives("token", 3600)).As("refresh")
				test(t, rig{server, server.Client.Shared.(*oauthtest.Shared)})
			})
		})
	}
}
