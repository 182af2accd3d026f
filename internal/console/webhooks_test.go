package console

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/store"
)

// toldApps fills the log with an event of each state: arrived, tried and pending, given up, and one about an approval.
func toldApps(r *rig) (ids []string) {
	states := []store.AppEventEnd{
		{State: store.EventDelivered, Answer: "204"}, {State: store.EventPending, Answer: "forbidden address", After: 20 * time.Second},
		{State: store.EventGivenUp, Answer: "410"},
	}
	for i, end := range states {
		s := r.begin([]string{"nora@example.com", "lu@qq.com", "sam@example.net"}[i], func(s *store.Send) { s.Reference = "order-7" }).Send
		tell := store.NewEvent{ID: r.id(), Type: "send.failed", Test: i == 2}
		r.finish(s, store.Outcome{Status: store.Failed, Reason: "rejected", Event: tell})
		due, _, err := r.log.AppEventsDue(context.Background(), time.Second, []store.Share{{App: "shop", Limit: 1}})
		r.must(err)
		end.Held = store.Held{ID: due[0].ID, Attempt: due[0].Attempt}
		_, err = r.log.AppEventEnded(context.Background(), end)
		r.must(err)
		ids = append(ids, tell.ID.String())
		r.clock.Add(time.Second)
	}
	v := r.begin("eve@example.com").Verification
	tell := store.NewEvent{ID: r.id(), Type: "verification.approved"}
	_, err := r.log.Approve(context.Background(), v.ID, tell)
	r.must(err)
	return append(ids, tell.ID.String())
}

func TestEventsJSON(t *testing.T) {
	r := newRig(t)
	ids := toldApps(r)
	b := r.browser()
	read := func(path string) (list struct {
		Events []eventJSON
		Next   *string
	}) {
		t.Helper()
		rec := b.Get(path, "Authorization", "Bearer "+consoletest.Token)
		want(t, rec, http.StatusOK)
		lacks(t, rec, "nora@", "eve@", `"sealed"`)
		r.must(json.Unmarshal(rec.Body.Bytes(), &list))
		return list
	}
	all := read("/v1/admin/webhooks").Events
	if len(all) != 4 || all[0].ID != ids[3] || all[3].ID != ids[0] {
		t.Fatalf("%+v", all)
	}
	approved, gone, waits := all[0], all[1], all[2]
	if approved.SendID != nil || approved.Reason != nil || approved.Answer != nil || approved.DueAt == nil || approved.EndedAt != nil || approved.Attempts != 0 || approved.State != "pending" {
		t.Errorf("%+v", approved)
	}
	if *gone.Answer != "410" || gone.State != "given_up" || !gone.Test || gone.DueAt != nil || gone.EndedAt == nil || *gone.Reason != "rejected" || *gone.Reference != "order-7" {
		t.Errorf("%+v", gone)
	}
	if *waits.Answer != "forbidden address" || waits.Attempts != 1 || waits.To != "l•••@qq.com" || waits.SendID == nil || waits.VerificationID == "" {
		t.Errorf("%+v", waits)
	}
	if page := read("/v1/admin/webhooks?limit=4"); page.Next != nil {
		t.Errorf("a page after the last one: %s", *page.Next)
	}
	var paged []string
	for path := "/v1/admin/webhooks?limit=2"; ; {
		page := read(path)
		for _, e := range page.Events {
			paged = append(paged, e.ID)
		}
		if page.Next == nil {
			break
		}
		path = "/v1/admin/webhooks?limit=2&cursor=" + *page.Next
	}
	if got := strings.Join(paged, " "); got != strings.Join([]string{ids[3], ids[2], ids[1], ids[0]}, " ") {
		t.Errorf("page by page: %s", got)
	}
	for query, n := range map[string]int{"?state=given_up": 1, "?state=pending&app=shop": 2, "?app=other": 0, "?state=&app=&cursor=&limit=": 4} {
		if got := len(read("/v1/admin/webhooks" + query).Events); got != n {
			t.Errorf("%s: %d, want %d", query, got, n)
		}
	}
	for _, query := range []string{"?state=lost", "?limit=0", "?limit=201", "?limit=x", "?cursor=1", "?cursor={" + ids[0] + "}", "?app=a&app=b", "?apps=a", "?app=%00", "?app=\u00e9", "?%zz"} {
		if rec := b.Get("/v1/admin/webhooks"+query, "Authorization", "Bearer "+consoletest.Token); rec.Code/100 != 4 {
			t.Errorf("%s: %d", query, rec.Code)
		}
	}
	want(t, b.Get("/v1/admin/webhooks"), http.StatusUnauthorized)
	r.must(r.log.Close())
	want(t, b.Get("/v1/admin/webhooks", "Authorization", "Bearer "+consoletest.Token), http.StatusServiceUnavailable)
}

func TestEventsPage(t *testing.T) {
	r := newRig(t)
	want(t, r.browser().Get("/admin/webhooks"), http.StatusSeeOther)
	b := r.loggedIn()
	contains(t, b.Get("/admin/webhooks"), "No event is kept")
	ids := toldApps(r)
	rec := b.Get("/admin/webhooks")
	want(t, rec, http.StatusOK)
	contains(t, rec, "send.failed", "verification.approved", "delivered", "given up", "forbidden address · again in 18 s", `aria-current="true">Webhooks`, "l•••@qq.com")
	lacks(t, rec, "<style", " style=", "nora@", ids[0])
	contains(t, b.Get("/admin/webhooks", "Accept-Language", "zh"), "forbidden address · 18 秒后重试", "已放弃")
	rec = b.Get("/admin/webhooks?state=given_up&app=shop")
	contains(t, rec, "410", `value="given_up" selected`, `value="shop"`)
	lacks(t, rec, "forbidden address", "again in")
	rec = b.Get("/admin/webhooks?limit=3")
	contains(t, rec, `href="/admin/webhooks?cursor=`+ids[1]+`&amp;limit=3"`)
	rec = b.Get("/admin/webhooks?limit=3&cursor=" + ids[1])
	contains(t, rec, `href="/admin/webhooks?limit=3"`)
	lacks(t, rec, `rel="next"`)
	if rec := b.Get("/admin/webhooks?state=lost"); rec.Code != http.StatusUnprocessableEntity {
		t.Errorf("%d", rec.Code)
	}
}
