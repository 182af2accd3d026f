package operators

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sendcode/internal/app"
	"sendcode/internal/app/apptest"
	"sendcode/internal/app/doctor"
)

// tencentFake takes every message, and knows what became of it once it is told.
type tencentFake struct {
	*httptest.Server
	mu    sync.Mutex
	sent  int
	asked int
	state string // that it answers when it is asked; "": nothing is known yet
}

func newTencentFake(t *testing.T) *tencentFake {
	t.Helper()
	f := &tencentFake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch r.Header.Get("X-TC-Action") {
		case "SendSms":
			f.sent++
			_, _ = fmt.Fprintf(w, `{"Response":{"SendStatusSet":[{"SerialNo":"5000:%d","Code":"Ok"}]}}`, f.sent)
		case "PullSmsSendStatusByPhoneNumber":
			f.asked++
			_, _ = fmt.Fprintf(w, `{"Response":{"PullSmsSendStatusSet":[{"SerialNo":"5000:1","ReportStatus":%q}]}}`, f.state)
		case "DescribeSmsTemplateList":
			_, _ = io.WriteString(w, `{"Response":{"DescribeTemplateStatusSet":[{"TemplateId":11,"StatusCode":0}]}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *tencentFake) tell(state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = state
}

const tencentSecret = "a-secret-of-the-carrier-tencent"

func throughTencent(s *apptest.Stack, f *tencentFake, more string) *apptest.Stack {
	s.Env["TENCENT_KEY"] = tencentSecret
	return configured(s, `sms:
  countries: [DE]
`+more+`  carriers: [{name: tencent, type: tencent, endpoint: "`+f.URL+`", key_id: AKIDexample, secret_env: TENCENT_KEY, app: "1400006666", templates: {default: {en: "11"}}}]
`)
}

func sendStatus(s *apptest.Stack, i int, id string) string {
	return s.Do(i, http.MethodGet, "/v1/verifications/"+id, "").Send.Status
}

// Tencent tells by its own ID, at the address that the doctor prints; what it tells twice, late or of an unknown message is
// harmless, and without the token nothing is believed.
func TestTencentTellsByItsOwnID(t *testing.T) {
	t.Parallel()
	f := newTencentFake(t)
	s := throughTencent(apptest.Embedded(t), f, "  public_url: https://codes.example.com\n").Start(1)
	a := text(s, 0, phoneNumber)
	s.Await("the send", func() bool { return sendStatus(s, 0, a.ID) == "sent" })
	cfg := s.Config()
	_, err := cfg.FillSecrets(cfg.DataDir) // reads the key that the replica has generated
	apptest.Must(t, err)
	address := strings.TrimPrefix(app.ReceiptAddresses(cfg).Of("tencent", ""), "https://codes.example.com")
	tell := func(path, sid, status string, want int) {
		t.Helper()
		body := fmt.Sprintf(`[{"mobile":"15123456789","report_status":%q,"sid":"5000:77"},{"report_status":%q,"sid":%q}]`, status, status, sid)
		got := s.Do(0, http.MethodPost, path, body)
		if got.StatusCode != want || want == http.StatusOK && string(got.Raw) != `{"result":0,"errmsg":"OK"}` {
			t.Errorf("%d, want %d: %s", got.StatusCode, want, got.Raw)
		}
	}
	tell(strings.Split(address, "?")[0], "5000:1", "SUCCESS", http.StatusNotFound)
	tell(address, "5000:2", "SUCCESS", http.StatusOK)
	if got := sendStatus(s, 0, a.ID); got != "sent" {
		t.Errorf("%s", got)
	}
	for _, status := range []string{"SUCCESS", "SUCCESS", "FAIL"} {
		tell(address, "5000:1", status, http.StatusOK)
		if got := sendStatus(s, 0, a.ID); got != "delivered" {
			t.Errorf("after %s: %s", status, got)
		}
	}
	var out strings.Builder
	cfg = s.Config()
	if err := doctor.Examine(t.Context(), cfg, &out); err != nil || !strings.Contains(out.String(), "✓ carrier tencent: 127.0.0.1 answers, takes the signature and knows the templates 11") ||
		strings.Contains(out.String(), tencentSecret) {
		t.Errorf("%v: %s", err, out.String())
	}
	f.Close()
	out.Reset()
	if err := doctor.Examine(t.Context(), cfg, &out); err == nil || !strings.Contains(out.String(), "✗ carrier tencent: 127.0.0.1: the host takes no connection") {
		t.Errorf("%v: %s", err, out.String())
	}
}
