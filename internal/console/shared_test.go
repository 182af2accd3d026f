package console

import (
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// A row that stands for several recipients is shown as one of several wherever rows are shown, and is none of a recipient's.
func TestRowsOfSeveralRecipients(t *testing.T) {
	r := newRig(t)
	row := r.refused("anna@example.com", "office", time.Hour, 90, func(s *store.Send) {
		s.Recipient, s.To, s.Recipients, s.IP = recipient.Hash{}, "", 42, "192.0.2.0/24"
	})
	r.refused("anna@example.com", "office", time.Hour, 1)
	b := r.loggedIn()
	contains(t, b.Get("/admin"), "and 42 more recipients", "×90")
	page := b.Get("/admin/sends/" + row.ID.String())
	contains(t, page, "It stands for about 42 recipients", "The row stands for several recipients.", "and 42 more recipients")
	lacks(t, page, `id="answer"`, "?recipient=", "/admin/sends/"+row.ID.String()+"/")
	_, hash := r.recipient("anna@example.com")
	lacks(t, b.Get("/admin?recipient="+hash.String()), "×90")
	contains(t, b.Get("/admin/overview"), "91")
	list := b.list("/v1/admin/sends")
	if one, several := list.Sends[0], list.Sends[1]; one["recipients"] != nil || several["recipients"] != 42.0 || several["recipient"] != "" || several["to"] != "" || several["count"] != 90.0 {
		t.Errorf("%v", list.Sends)
	}
	exported := exportOf(t, b.Get("/v1/admin/sends.csv").Body.Bytes())
	if one, several := exported[0], exported[1]; one["recipients"] != "" || several["recipients"] != "42" || several["recipient"] != "" || several["count"] != "90" {
		t.Errorf("%v", exported)
	}
}
