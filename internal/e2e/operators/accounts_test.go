package operators

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sendcode/internal/app"
	"sendcode/internal/app/apptest"
	"sendcode/internal/config"
)

// The console's first account by a shell, on Postgres beside the service; then its session on another replica, and its end on both.
func TestAccountsByShell(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Start(2)
	var out bytes.Buffer
	for _, wish := range []app.AccountChange{
		{Name: "mei", Role: "operator", Do: "add", Reason: "first of all"}, {Do: "list"},
	} {
		if err := app.ChangeAccount(t.Context(), s.Config(), wish, &out); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[2], "mei\toperator\topen\t") {
		t.Fatalf("%q", lines)
	}
	for _, wrong := range []app.AccountChange{
		{Name: "mei", Role: "operator", Do: "add", Reason: "again"}, {Name: "li", Role: "operator", Do: "add"}, {Name: "li", Do: "close", Reason: "x"},
	} {
		if err := app.ChangeAccount(t.Context(), s.Config(), wrong, &out); err == nil {
			t.Errorf("%+v: done", wrong)
		}
	}
	visit := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := visit.PostForm(s.Replicas[0].Base+"/admin/login", url.Values{"username": {"mei"}, "password": {lines[1]}})
	if err != nil || resp.StatusCode != http.StatusSeeOther || len(resp.Cookies()) != 2 { // the session, and that the browser is known
		t.Fatal(resp, err)
	}
	defer resp.Body.Close()
	with := func(r *http.Request) { r.Header.Del("Authorization"); r.AddCookie(resp.Cookies()[0]) }
	for i := range 2 {
		if a := s.Do(i, http.MethodGet, "/v1/admin/acts?what=login", "", with); a.StatusCode != http.StatusOK || !strings.Contains(string(a.Raw), `"who":"mei"`) {
			t.Errorf("replica %d: %d %s", i, a.StatusCode, a.Raw)
		}
	}
	if a := s.Do(1, http.MethodPost, "/v1/admin/erase", `{"channel":"email","to":"`+apptest.Ana+`","reason":"x"}`, with); a.StatusCode != http.StatusForbidden {
		t.Errorf("an operator erases: %d", a.StatusCode)
	}
	req, err := http.NewRequest(http.MethodPost, s.Replicas[1].Base+"/admin/logout", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.AddCookie(resp.Cookies()[0])
	out2, err := visit.Do(req)
	if err != nil || out2.StatusCode != http.StatusSeeOther {
		t.Fatal(out2, err)
	}
	defer out2.Body.Close()
	for i := range 2 {
		if a := s.Do(i, http.MethodGet, "/v1/admin/acts", "", with); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("logged out, and replica %d answers %d", i, a.StatusCode)
		}
	}
}

func TestAccountsOfAFile(t *testing.T) {
	cfg, err := config.Load([]string{"SENDCODE_DATA_DIR=" + t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := app.ChangeAccount(t.Context(), cfg, app.AccountChange{Name: "mei", Role: "owner", Do: "add", Reason: "first"}, &out); err != nil {
		t.Fatal(err)
	}
	err = app.ChangeAccount(t.Context(), cfg, app.AccountChange{Name: "admin", Do: "factor", Reason: "lost"}, &out)
	if err == nil || !strings.Contains(err.Error(), "no_factor") {
		t.Errorf("what no account has is taken away: %v", err)
	}
	unlock, err := config.LockDataDir(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unlock() }()
	err = app.ChangeAccount(t.Context(), cfg, app.AccountChange{Do: "list"}, &out)
	if err == nil || !strings.Contains(err.Error(), "use /admin/accounts") {
		t.Errorf("beside the service: %v", err)
	}
}
