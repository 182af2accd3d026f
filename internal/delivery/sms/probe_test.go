package sms

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sendcode/internal/parts"
)

// probed is the carrier's side of a probe: it checks the signature as documented.
func probed(t *testing.T, r rig, check func(*http.Request, string) error, s said) Carrier {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if err := check(req, string(body)); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.body)
	}))
	t.Cleanup(server.Close)
	return r.make(t, server.URL)
}

func TestProbe(t *testing.T) {
	login := func(r *http.Request, _ string) error {
		if user, token, _ := r.BasicAuth(); user != "AC00000000000000000000000000000001" || token != private || r.Method != "GET" {
			return fmt.Errorf("%s as %s", r.Method, user)
		}
		return nil
	}
	templates := func(status int) string {
		return fmt.Sprintf(`{"Response":{"DescribeTemplateStatusSet":[{"TemplateId":1110,"StatusCode":%d}],"RequestId":"r"}}`, status)
	}
	for name, c := range map[string]struct {
		rig   rig
		check func(*http.Request, string) error
		said  said
		want  error
	}{
		"twilio":               {twilioRig(), login, said{404, `{"code":20404}`}, nil},
		"twilio, refused":      {twilioRig(), login, said{401, `{"code":20003,"message":"` + private + `"}`}, errRefused},
		"twilio, broken":       {twilioRig(), login, said{500, private}, errAnswered},
		"aliyun":               {aliyunRig(), checkACS3, said{200, `{"Code":"OK","TemplateStatus":"1"}`}, nil},
		"aliyun, a number":     {aliyunRig(), checkACS3, said{200, `{"Code":"OK","TemplateStatus":1}`}, nil},
		"aliyun, not yet":      {aliyunRig(), checkACS3, said{200, `{"Code":"OK","TemplateStatus":"0"}`}, errUnknown},
		"aliyun, no template":  {aliyunRig(), checkACS3, said{200, `{"Code":"isv.SMS_TEMPLATE_ILLEGAL","Message":"` + private + `"}`}, errUnknown},
		"aliyun, refused":      {aliyunRig(), checkACS3, said{400, `{"Code":"SignatureDoesNotMatch","Message":"` + private + `"}`}, errRefused},
		"aliyun, no sense":     {aliyunRig(), checkACS3, said{200, private}, errAnswered},
		"tencent":              {tencentRig(), checkTC3, said{200, templates(0)}, nil},
		"tencent, not yet":     {tencentRig(), checkTC3, said{200, templates(1)}, errUnknown},
		"tencent, no template": {tencentRig(), checkTC3, said{200, `{"Response":{"DescribeTemplateStatusSet":[]}}`}, errUnknown},
		"tencent, refused":     {tencentRig(), checkTC3, said{200, `{"Response":{"Error":{"Code":"AuthFailure.SecretIdNotFound","Message":"` + private + `"}}}`}, errRefused},
		"tencent, no sense":    {tencentRig(), checkTC3, said{200, "<html>"}, errAnswered},
		"described":            {genericRig().rig, func(*http.Request, string) error { return errors.New("it was asked") }, said{}, nil},
	} {
		got, err := Probe(context.Background(), probed(t, c.rig, c.check, c.said))
		if !errors.Is(err, c.want) || err == nil && !strings.HasPrefix(got, "127.0.0.1 answers") || err != nil && got != "" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if strings.Contains(got+fmt.Sprint(err), private) {
			t.Errorf("%s: the secret is told: %q, %v", name, got, err)
		}
	}
}

func TestProbeOfWhoIsNotThere(t *testing.T) {
	nobody := fmt.Sprint("http://127.0.0.1:", parts.FreePort(t))
	foreign := httptest.NewTLSServer(http.NotFoundHandler()) // of a certificate that nobody trusts
	t.Cleanup(foreign.Close)
	for endpoint, want := range map[string]error{nobody: errNoReach, foreign.URL: errNoTLS, "https://nobody.invalid": errResolve} {
		if got, err := Probe(context.Background(), twilioRig().make(t, endpoint)); !errors.Is(err, want) || got != "" {
			t.Errorf("%s: %q, %v", endpoint, got, err)
		}
	}
	if _, err := Probe(context.Background(), &scripted{name: "mute"}); !errors.Is(err, errProbe) {
		t.Errorf("%v", err)
	}
}
