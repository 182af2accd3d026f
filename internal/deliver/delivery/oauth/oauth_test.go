package oauth_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/deliver/delivery/oauth"
	"sendcode/internal/deliver/delivery/oauth/oauthtest"
	"sendcode/internal/kit/servertest"
)

// What the operator hears of each answer. Nothing shows the secret.
func TestAnswers(t *testing.T) {
	const no = "the token server gives no token that can be used"
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
