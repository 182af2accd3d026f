package app

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sendcode/internal/config"
)

// The console's first account by a shell, on Postgres beside the service; then its session on another replica, and its end on both.
func TestAccountsByShell(t *testing.T) {
	t.Parallel()
	s := onRealParts(t).start(2)
	var out bytes.Buffer
	for _, wish := range []AccountChange{
		{Name: "mei", Role: "operator", Do: "add", Reason: "first of all"}, {Do: "list"},
	} {
		if err := ChangeAccount(t.Context(), s.config(), wish, &out); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[2], "mei\toperator\topen\t") {
		t.Fatalf("%q", lines)
	}
	for _, wrong := range []AccountChange{
		{Name: "mei", Role: "operator", Do: "add", Reason: "again"}, {Name: "li", Role: "operator", Do: "add"}, {Name: "li", Do: "close", Reason: "x"},
	} {
		if err := ChangeAccount(t.Context(), s.config(), wrong, &out); err == nil {
			t.Errorf("%+v: done", wrong)
		}
	}
	visit := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := visit.PostForm(s.replicas[0].base+"/admin/login", url.Values{"username": {"mei"}, "password": {lines[1]}})
	if err != nil || resp.StatusCode != http.StatusSeeOther || len(resp.Cookies()) != 2 { // the session, and that the browser is known
		t.Fatal(resp, err)
	}
	defer resp.Body.Close()
	with := func(r *http.Request) { r.Header.Del("Authorization"); r.AddCookie(resp.Cookies()[0]) }
	for i := range 2 {
		if a := s.do(i, http.MethodGet, "/v1/admin/acts?what=login", "", with); a.status != http.StatusOK || !strings.Contains(string(a.raw), `"who":"mei"`) {
			t.Errorf("replica %d: %d %s", i, a.status, a.raw)
		}
	}
	if a := s.do(1, http.MethodPost, "/v1/admin/erase", `{"channel":"email","to":"`+ana+`","reason":"x"}`, with); a.status != http.StatusForbidden {
		t.Errorf("an operator erases: %d", a.status)
	}
	req, err := http.NewRequest(http.MethodPost, s.replicas[1].base+"/admin/logout", nil)
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
		if a := s.do(i, http.MethodGet, "/v1/admin/acts", "", with); a.status != http.StatusUnauthorized {
			t.Errorf("logged out, and replica %d answers %d", i, a.status)
		}
	}
}

func TestAccountsOfAFile(t *testing.T) {
	cfg, err := config.Load([]string{"SENDCODE_DATA_DIR=" + t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := ChangeAccount(t.Context(), cfg, AccountChange{Name: "mei", Role: "owner", Do: "add", Reason: "first"}, &out); err != nil {
		t.Fatal(err)
	}
	err = ChangeAccount(t.Context(), cfg, AccountChange{Name: "admin", Do: "factor", Reason: "lost"}, &out)
	if err == nil || !strings.Contains(err.Error(), "no_factor") {
		t.Errorf("what nobody has is taken away: %v", err)
	}
	unlock, err := config.LockDataDir(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unlock() }()
	err = ChangeAccount(t.Context(), cfg, AccountChange{Do: "list"}, &out)
	if err == nil || !strings.Contains(err.Error(), "use /admin/accounts") {
		t.Errorf("beside the service: %v", err)
	}
}
