package sms

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"sendcode/internal/delivery"
)

const twilioMessage = "SM00000000000000000000000000000009"

// asked is a carrier that can be asked, with what is asked and answered on the wire.
type asked struct {
	rig                         rig
	id                          string
	check                       func(r *http.Request, body string) error
	delivered, lost, open, none string // its answers; none: it knows nothing of the message
	refusal                     said
}

func askedRigs(t *testing.T) []asked {
	t.Helper()
	aliyunSays := func(status int, out string) string {
		return fmt.Sprintf(`{"Code":"OK","Message":"OK","TotalCount":2,"SmsSendDetailDTOs":{"SmsSendDetailDTO":[{"SendStatus":3,"OutId":"another"},{"SendStatus":%d,"OutId":%q,"PhoneNum":"13812345678"}]}}`, status, out)
	}
	tencentSays := func(status, serial string) string {
		return fmt.Sprintf(`{"Response":{"PullSmsSendStatusSet":[{"ReportStatus":"SUCCESS","SerialNo":"5000:1"},{"ReportStatus":%q,"SerialNo":%q,"PhoneNumber":"+8613812345678","Description":"x"}],"RequestId":"r"}}`, status, serial)
	}
	described := genericRig()
	generic := rig{name: "generic", make: func(t *testing.T, endpoint string) Carrier {
		g := described.description(endpoint)
		g.Poll = Poll{URL: endpoint + "/messages/{message}?to={to}", ReceiptWords: ReceiptWords{Status: "$.message.state", Delivered: []string{"DELIVRD"}, Undelivered: []string{"UNDELIV", "EXPIRED"}}}
		return must(t)(NewGeneric(g))
	}}
	return []asked{
		{
			rig: twilioRig(), id: twilioMessage,
			check: func(r *http.Request, body string) error {
				if r.Method != "GET" || r.URL.Path != "/2010-04-01/Accounts/AC00000000000000000000000000000001/Messages/"+twilioMessage+".json" || body != "" {
					return fmt.Errorf("%s %s %q", r.Method, r.URL, body)
				}
				if want := "Basic " + base64.StdEncoding.EncodeToString([]byte("AC00000000000000000000000000000001:"+private)); r.Header.Get("Authorization") != want {
					return errors.New("not logged in")
				}
				return nil
			},
			delivered: `{"sid":"` + twilioMessage + `","status":"delivered"}`, lost: `{"sid":"` + twilioMessage + `","status":"undelivered"}`,
			open: `{"sid":"` + twilioMessage + `","status":"sent"}`, refusal: said{404, `{"code":20404}`},
		},
		{
			rig: aliyunRig(), id: "900619746936498440^0",
			check: func(r *http.Request, body string) error {
				q := r.URL.Query()
				for name, want := range map[string]string{"PhoneNumber": "13812345678", "BizId": "900619746936498440^0", "SendDate": "20300302", "PageSize": "50", "CurrentPage": "1"} {
					if q.Get(name) != want {
						return fmt.Errorf("%s is %q", name, q.Get(name))
					}
				}
				if r.Header.Get("X-Acs-Action") != "QuerySendDetails" {
					return errors.New("another action")
				}
				return checkACS3(r, body)
			},
			delivered: aliyunSays(3, sample().ID), lost: aliyunSays(2, sample().ID), open: aliyunSays(1, sample().ID), none: aliyunSays(3, "x"),
			refusal: said{200, `{"Code":"isv.ACCOUNT_ABNORMAL","Message":"` + private + `"}`},
		},
		{
			rig: tencentRig(), id: "5000:1045710669157053657849499619",
			check: func(r *http.Request, body string) error {
				var got map[string]any
				if err := json.Unmarshal([]byte(body), &got); err != nil {
					return err
				}
				want := map[string]any{
					"PhoneNumber": "+8613812345678", "SmsSdkAppId": "1400006666", "Offset": 0.0, "Limit": 100.0,
					"BeginTime": float64(askedAt.Add(-time.Minute).Unix()), "EndTime": float64(signedAt.Unix()),
				}
				if !reflect.DeepEqual(got, want) || r.Header.Get("X-TC-Action") != "PullSmsSendStatusByPhoneNumber" || r.Header.Get("X-TC-Version") != "2021-01-11" {
					return fmt.Errorf("%v", got)
				}
				return checkTC3(r, body)
			},
			delivered: tencentSays("SUCCESS", "5000:1045710669157053657849499619"), lost: tencentSays("FAIL", "5000:1045710669157053657849499619"),
			open: `{"Response":{"PullSmsSendStatusSet":[],"RequestId":"r"}}`, none: tencentSays("SUCCESS", "5000:2"),
			refusal: said{200, `{"Response":{"Error":{"Code":"AuthFailure.SignatureFailure","Message":"` + private + `"},"RequestId":"r"}}`},
		},
		{
			rig: generic, id: "m/1",
			check: func(r *http.Request, _ string) error {
				if r.Method != "GET" || r.URL.EscapedPath() != "/messages/m%2F1" || r.URL.Query().Get("to") != "+8613812345678" {
					return fmt.Errorf("%s %s", r.Method, r.URL)
				}
				return nil
			},
			delivered: `{"message":{"state":"DELIVRD"}}`, lost: `{"message":{"state":"EXPIRED"}}`, open: `{"message":{"state":"ACCEPTD"}}`,
			refusal: said{200, `{"error":"` + private + `"}`},
		},
	}
}

// askedAt is late in the evening in UTC, when Aliyun has the next day.
var askedAt = time.Date(2030, 3, 1, 23, 30, 0, 0, time.UTC)

// Each carrier is asked as its documentation has it, with its signature, and its answer is taken for this very message alone.
func TestCarriersAreAsked(t *testing.T) {
	for _, c := range askedRigs(t) {
		for name, x := range map[string]struct {
			body      string
			known, in bool
		}{
			"delivered": {c.delivered, true, true}, "lost": {c.lost, true, false}, "under way": {c.open, false, false}, "of others": {c.none, false, false},
		} {
			if x.body == "" {
				continue
			}
			r := c.rig
			r.check = c.check
			f := newFake(t, r, says(said{200, x.body}))
			got, known, err := askerOf(t, r.make(t, f.URL)).Ask(context.Background(), inquiryAbout(c.id))
			want := Report{Send: sample().ID, Delivered: x.in}
			if err != nil || known != x.known || known && got != want || !known && got != (Report{}) {
				t.Errorf("%s, %s: %+v, %v, %v", r.name, name, got, known, err)
			}
		}
	}
}

func inquiryAbout(id string) Inquiry {
	return Inquiry{Send: sample().ID, ID: id, To: sample().To, Country: "CN", At: askedAt}
}

func askerOf(t *testing.T, c Carrier) Asker {
	t.Helper()
	all := NewCarriers([]Route{{Carrier: c, Asked: true}}, Options{})
	asker, ok := all.Asker(c.Name())
	if !ok {
		t.Fatal("it can't be asked")
	}
	return asker
}

// Whatever goes wrong with an inquiry says nothing of the message, and tells nothing private.
func TestInquiriesThatFail(t *testing.T) {
	for _, c := range askedRigs(t) {
		for name, respond := range map[string]http.HandlerFunc{
			"of another message": says(said{200, strings.ReplaceAll(c.delivered, twilioMessage, "SM00000000000000000000000000000008")}),
			"refused":            says(c.refusal), "no sense": says(said{200, "<html>" + private}), "broke": says(said{500, c.delivered}), "too many": says(said{429, c.delivered}),
			"cut": hijacked("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + c.delivered[:8]),
		} {
			if name == "of another message" && c.id != twilioMessage { // the others answer with lists: see above
				continue
			}
			r := c.rig
			r.check = c.check
			f := newFake(t, r, respond)
			got, known, err := askerOf(t, r.make(t, f.URL)).Ask(context.Background(), inquiryAbout(c.id))
			var fail *Error
			if known || got != (Report{}) || !errors.As(err, &fail) || fail.Class == delivery.Rejected {
				t.Errorf("%s, %s: %+v, %v, %v", r.name, name, got, known, err)
			}
			for _, secret := range []string{private, "13812345678"} {
				if strings.Contains(fmt.Sprintf("%v %+v", err, fail), secret) {
					t.Errorf("%s, %s: %q stands in %v", r.name, name, secret, err)
				}
			}
		}
	}
}

func TestWhoCanBeAsked(t *testing.T) {
	twilio, tencent := twilioRig().make(t, "https://api.twilio.com"), tencentRig().make(t, "https://sms.tencentcloudapi.com")
	all := NewCarriers([]Route{{Carrier: twilio}, {Carrier: tencent, Asked: true}, {Carrier: &scripted{name: "mute"}, Asked: true}}, Options{Callback: func(string, string) string { return "x" }})
	for name, want := range map[string]bool{"twilio": false, "tencent": true, "mute": false, "nobody": false} {
		if _, ok := all.Asker(name); ok != want {
			t.Errorf("%s can be asked: %v", name, ok)
		}
	}
	for name, want := range map[string]bool{"twilio": false, "tencent": true, "nobody": false} {
		if got := all.ToldByID(name); got != want {
			t.Errorf("%s tells by its own ID: %v", name, got)
		}
	}
	if NewCarriers([]Route{{Carrier: tencent}}, Options{}).ToldByID("tencent") {
		t.Error("it tells, though nobody can be called")
	}
	if _, _, err := twilio.(Asker).Ask(context.Background(), inquiryAbout("../../x")); err == nil {
		t.Error("an ID that is none was asked for")
	}
	_, _, err := must(t)(NewGeneric(genericRig().description("https://sms.example.com"))).(Asker).Ask(context.Background(), inquiryAbout("1"))
	var fail *Error
	if !errors.As(err, &fail) || fail.Class != delivery.Rejected {
		t.Errorf("%v", err)
	}
}

func TestPollAsDescribed(t *testing.T) {
	good := Poll{URL: "https://sms.example.com/{message}", ReceiptWords: ReceiptWords{Status: "$.s", Delivered: []string{"1"}}}
	for name, change := range map[string]func(*Generic){
		"no URL": func(g *Generic) { g.Poll.URL = "" }, "a parameter": func(g *Generic) { g.Poll.Status = "status" }, "no message": func(g *Generic) { g.Poll.URL = "https://sms.example.com/" },
		"plain": func(g *Generic) { g.Poll.URL = "http://sms.example.com/{message}" }, "no words": func(g *Generic) { g.Poll.Delivered = nil },
		"unknown": func(g *Generic) { g.Poll.URL += "{nothing}" }, "no ID": func(g *Generic) { g.Answer.ID = Extract{} },
	} {
		g := genericRig().description("https://sms.example.com")
		g.Poll = good
		g.Answer.ID, _ = ParseExtract("$.id")
		if err := g.Check()["poll"]; err != nil {
			t.Fatal(err)
		}
		change(&g)
		if g.Check()["poll"] == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// Tencent tells by its own ID, in lists (the vendor's example), and hears that it was taken.
func TestTencentReceipts(t *testing.T) {
	r := reporter(t, tencentRig().make(t, "https://sms.tencentcloudapi.com"))
	got, reply, err := r.Reports(Incoming{Body: []byte(`[{"user_receive_time":"2015-10-17 08:03:04","nationcode":"86","mobile":"13812345678","report_status":"SUCCESS","errmsg":"DELIVRD","description":"x","sid":"5000:1"},
		{"report_status":"FAIL","errmsg":"MK:0001","sid":"5000:2"},{"report_status":"WAIT","sid":"5000:3"},{"report_status":"SUCCESS"},{"report_status":"SUCCESS","sid":"a b"}]`)}, "")
	if err != nil || fmt.Sprint(got) != "[{ true 5000:1} { false 5000:2}]" || reply != `{"result":0,"errmsg":"OK"}` {
		t.Errorf("%v, %q, %v", got, reply, err)
	}
	for _, body := range []string{"{}", "", "sid=1"} {
		if _, _, err := r.Reports(Incoming{Body: []byte(body)}, ""); !errors.Is(err, ErrReport) {
			t.Errorf("%q: %v", body, err)
		}
	}
}
