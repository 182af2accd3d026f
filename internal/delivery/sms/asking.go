package sms

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/delivery"
)

// Inquiry names a message of which nothing final is known.
type Inquiry struct {
	Send    string    // its ID, as the message had it
	ID      string    // the carrier's for it, as the receipt of Send had it
	To      string    // the number, E.164
	Country string    // its region
	At      time.Time // when it was handed over
}

// Asker is a Carrier that can be asked what became of a message, where it can't tell by itself.
type Asker interface {
	// Ask asks once. False: nothing final is known yet. The error is always an [*Error]; asking again is harmless.
	Ask(ctx context.Context, q Inquiry) (Report, bool, error)
}

// Asker gives the carrier of a name, if it can be asked.
func (c *Carriers) Asker(name string) (Asker, bool) {
	for _, r := range c.routes {
		if r.Carrier.Name() == name {
			asker, ok := r.Carrier.(Asker)
			return asker, ok && r.Asked
		}
	}
	return nil, false
}

// ToldByID says whether the carrier of a name tells of messages by its own ID.
func (c *Carriers) ToldByID(name string) bool {
	for _, r := range c.routes {
		if r.Carrier.Name() == name {
			_, told := r.Carrier.(*tencent)
			return told && c.Callback != nil
		}
	}
	return false
}

// asking makes a request and has its answer read: a status other than 200 is a failure, about which nothing more is said.
func (x *exchange) asking(ctx context.Context, r request) (answer, error) {
	a, fail := x.do(ctx, r)
	switch {
	case fail != nil:
		return a, fail
	case a.status != http.StatusOK:
		return a, &Error{Class: delivery.Temporary, Stage: StageAnswer, Status: a.status, RetryAfter: retryAfter(a.header)}
	}
	return a, nil
}

// unclear is an answer to an inquiry that can't be read, or that refuses it.
func unclear(a answer, code string) error {
	return &Error{Class: delivery.Temporary, Stage: StageAnswer, Status: a.status, Code: asCode(code), Err: errAnswer}
}

// final reads a carrier's word for what became of a message.
func final(send, word string, delivered, undelivered []string) (Report, bool) {
	switch {
	case slices.Contains(delivered, word):
		return Report{Send: send, Delivered: true}, true
	case slices.Contains(undelivered, word):
		return Report{Send: send}, true
	}
	return Report{}, false
}

// Ask implements Asker: it fetches the message (twilio.com/docs/messaging/api/message-resource#fetch-a-message-resource).
func (t *twilio) Ask(ctx context.Context, q Inquiry) (Report, bool, error) {
	if !twilioSID.MatchString(q.ID) {
		return Report{}, false, &Error{Class: delivery.Rejected, Stage: StageMessage, Err: errMessage}
	}
	a, err := t.exchange.asking(ctx, request{
		method: http.MethodGet, url: strings.TrimSuffix(t.Endpoint, "/") + "/2010-04-01/Accounts/" + t.Account + "/Messages/" + q.ID + ".json",
		header: http.Header{"Authorization": {basicAuth(t.user(), t.Token)}, "Accept": {"application/json"}},
	})
	if err != nil {
		return Report{}, false, err
	}
	var said struct {
		SID    string `json:"sid"`
		Status string `json:"status"`
	}
	if json.Unmarshal(a.body, &said) != nil || said.SID != q.ID {
		return Report{}, false, unclear(a, "")
	}
	r, known := final(q.Send, said.Status, []string{"delivered", "read"}, []string{"undelivered", "failed", "canceled"})
	return r, known, nil
}

// Aliyun keeps the days of mainland China, for whatever country.
var china = time.FixedZone("UTC+8", 8*60*60)

// Ask implements Asker (help.aliyun.com/zh/sms/developer-reference/api-dysmsapi-2017-05-25-querysenddetails): SendStatus 1 is
// under way, 2 failed, 3 delivered; OutId is what SendSms was given.
func (c *aliyun) Ask(ctx context.Context, q Inquiry) (Report, bool, error) {
	a, err := c.exchange.asking(ctx, c.request("QuerySendDetails", map[string]string{
		"PhoneNumber": aliyunNumber(Message{To: q.To, Country: q.Country}), "BizId": q.ID, "SendDate": q.At.In(china).Format("20060102"),
		"PageSize": "50", "CurrentPage": "1",
	}))
	if err != nil {
		return Report{}, false, err
	}
	var said struct {
		Code              string
		SmsSendDetailDTOs struct {
			SmsSendDetailDTO []struct {
				SendStatus int
				OutID      string `json:"OutId"`
			}
		}
	}
	if json.Unmarshal(a.body, &said) != nil || said.Code != "OK" {
		return Report{}, false, unclear(a, said.Code)
	}
	for _, d := range said.SmsSendDetailDTOs.SmsSendDetailDTO {
		if r, known := final(q.Send, strconv.Itoa(d.SendStatus), []string{"3"}, []string{"2"}); known && d.OutID == q.Send {
			return r, true, nil
		}
	}
	return Report{}, false, nil
}

// Ask implements Asker (tencentcloud.com/document/product/382/40518, PullSmsSendStatusByPhoneNumber): by number and time, and
// not PullSmsSendStatus, which hands each status out once, to whoever of the account asks first, and has to be applied for.
func (c *tencent) Ask(ctx context.Context, q Inquiry) (Report, bool, error) {
	body, err := json.Marshal(map[string]any{
		"BeginTime": q.At.Add(-tencentSlack).Unix(), "EndTime": c.Now().Unix(), "Offset": 0, "Limit": 100, "PhoneNumber": q.To, "SmsSdkAppId": c.App,
	})
	if err != nil {
		return Report{}, false, &Error{Class: delivery.Rejected, Stage: StageMessage, Err: errMessage}
	}
	a, err := c.exchange.asking(ctx, c.request("PullSmsSendStatusByPhoneNumber", body))
	if err != nil {
		return Report{}, false, err
	}
	var said struct {
		Response struct {
			Error                *struct{ Code string }
			PullSmsSendStatusSet []struct{ SerialNo, ReportStatus string }
		}
	}
	if json.Unmarshal(a.body, &said) != nil {
		return Report{}, false, unclear(a, "")
	}
	if said.Response.Error != nil {
		return Report{}, false, unclear(a, said.Response.Error.Code)
	}
	for _, s := range said.Response.PullSmsSendStatusSet {
		if r, known := final(q.Send, s.ReportStatus, tencentDelivered, tencentLost); known && s.SerialNo == q.ID {
			return r, true, nil
		}
	}
	return Report{}, false, nil
}

// tencentSlack is how far their clock may be from ours.
const tencentSlack = time.Minute

// The words for what became of a message.
var (
	tencentDelivered = []string{"SUCCESS"}
	tencentLost      = []string{"FAIL"}
)

// Reports implements Reporter (tencentcloud.com/document/product/382/43547): a list, at an address that the application has
// and that names no send; sid is the SerialNo that SendSms answered. Nothing is signed.
func (c *tencent) Reports(in Incoming, _ string) ([]Report, string, error) {
	var all []struct {
		SID    string `json:"sid"`
		Status string `json:"report_status"`
	}
	if err := json.Unmarshal(in.Body, &all); err != nil {
		return nil, "", ErrReport
	}
	var reports []Report
	for _, r := range all {
		if report, known := final("", r.Status, tencentDelivered, tencentLost); known && asID(r.SID) != "" {
			report.ID = r.SID
			reports = append(reports, report)
		}
	}
	return reports, `{"result":0,"errmsg":"OK"}`, nil
}

// Poll describes how a carrier is asked what became of a message.
type Poll struct {
	// URL is fetched by GET, with the headers and the login of the description; {message} is the carrier's ID.
	URL string
	ReceiptWords
}

func (p Poll) set() bool { return p.URL != "" || p.ReceiptWords.set() }

func (p Poll) check(note func(string, error), id Extract) {
	switch {
	case !p.set():
		return
	case p.URL == "" || !strings.HasPrefix(p.Status, "$"):
		note("poll", errors.New("needs url, and status, a path such as $.status through the answer"))
	case strings.Contains(p.URL, "{message}") && !id.set():
		note("poll", errors.New("asks for {message}, so answer needs id: where the carrier's ID stands"))
	case !strings.Contains(p.URL, "{message}") && !strings.Contains(p.URL, "{id}"):
		note("poll", errors.New("url names no message: {message} is the carrier's ID, {id} the send's"))
	default:
		if unknown := unknownNames(strings.ReplaceAll(p.URL, "{message}", "")); len(unknown) > 0 {
			note("poll", errors.New("there is no placeholder "+strings.Join(unknown, ", ")))
		}
		if err := checkTemplateURL(p.URL); err != nil {
			note("poll", errors.New("url "+err.Error()))
		}
	}
	p.ReceiptWords.check(func(_ string, err error) { note("poll", err) })
}

// errNoPoll is of a carrier whose description does not say how it is asked.
const errNoPoll = problem("it is not described how the carrier is asked")

// Ask implements Asker.
func (g *generic) Ask(ctx context.Context, q Inquiry) (Report, bool, error) {
	if !g.Poll.set() {
		return Report{}, false, &Error{Class: delivery.Rejected, Stage: StageMessage, Err: errNoPoll}
	}
	values := Message{ID: q.Send, To: q.To, Country: q.Country}.values(g.Secret)
	values["message"] = q.ID
	r := request{method: http.MethodGet, url: fillIn(g.Poll.URL, values, forURL), header: g.header(values)}
	a, err := g.exchange.asking(ctx, r)
	if err != nil {
		return Report{}, false, err
	}
	word, found := g.Poll.find(Incoming{Body: a.body})
	if !found {
		return Report{}, false, unclear(a, "")
	}
	report, known := final(q.Send, word, g.Poll.Delivered, g.Poll.Undelivered)
	return report, known, nil
}
