package console

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// mostCommands bounds the keys of one task of support, counted from the list on. Typed texts do not
// count.
const mostCommands = 6

// keyboard is a person without a pointer. It counts the pressed keys.
type keyboard struct {
	*window
	task    string
	pressed int
}

// begins opens the list, from which each task begins.
func (k *keyboard) begins(task string) {
	k.Helper()
	k.ends()
	k.goTo("/admin")
	k.task, k.pressed = task, 0
}

// ends fails the test if the task took more than mostCommands.
func (k *keyboard) ends() {
	k.Helper()
	if k.pressed > mostCommands {
		k.Errorf("%s takes %d keys", k.task, k.pressed)
	}
}

func (k *keyboard) key(key string) step {
	k.pressed++
	if len(key) == 1 && key != " " {
		return press(key)
	}
	return chromedp.KeyEvent(key)
}

// finds searches for a text, which leads to the address.
func (k *keyboard) finds(typed, to string) {
	k.Helper()
	k.do(k.key("/"))
	k.leads(to, chromedp.KeyEvent(typed), k.key(kb.Enter))
}

// wantNode fails the test unless the tree for screen readers has a node with this role whose name
// or text contains the words.
func (k *keyboard) wantNode(role, words string) {
	k.Helper()
	var found []string
	for range 2 { // the first tree may belong to the previous page
		found = nil
		for _, n := range k.tree() {
			if n.role == role {
				found = append(found, n.text)
			}
		}
		if strings.Contains(strings.Join(found, "\n"), words) {
			return
		}
		k.Until(`document.readyState === "complete"`)
	}
	k.Errorf("%s: no %s says %q: %q", k.task, role, words, found)
}

type spokenNode struct{ role, text string }

// tree returns the nodes of the accessibility tree, each with its name and the text below it.
func (k *keyboard) tree() (all []spokenNode) {
	k.Helper()
	var nodes []*accessibility.Node
	k.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		got, err := cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		nodes = got.Nodes
		return err
	}))
	value := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		var text string
		if json.Unmarshal(v.Value, &text) != nil { // the value is not a text
			return ""
		}
		return text
	}
	byID := map[accessibility.NodeID]*accessibility.Node{}
	for _, n := range nodes {
		byID[n.NodeID] = n
	}
	var below func(n *accessibility.Node) string
	below = func(n *accessibility.Node) string {
		if value(n.Role) == "StaticText" {
			return value(n.Name)
		}
		var text strings.Builder
		for _, id := range n.ChildIDs {
			if child := byID[id]; child != nil {
				text.WriteString(below(child))
			}
		}
		return text.String()
	}
	for _, n := range nodes {
		if !n.Ignored {
			all = append(all, spokenNode{value(n.Role), value(n.Name) + " " + below(n)})
		}
	}
	return all
}

// A person does the tasks of a week of support with only a keyboard and a screen reader. Each task
// begins at the list and takes at most six keys, not counting typed texts. A screen reader reads
// the outcome of each task but the export, whose answer is a file.
func worksAWeekByKeyboard(t *testing.T, browser chromium) {
	r := newRig(t)
	maria := r.writeSent("maria@example.com")
	paul := r.writeSent("paul@example.com")
	r.suppress("paul@example.com", "asked for no more mail")
	r.Clock.Add(70 * time.Second)
	r.writeRefused("maria@example.com", "hour", 20*time.Minute, 1)
	t.Cleanup(r.Svc.Background())
	w := openWindow(r, browser)
	w.logIn()
	k := &keyboard{window: w}
	person := "/admin?recipient=" + maria.Recipient.String()

	k.begins("find and explain")
	k.finds("maria@example.com", person)
	k.wantNode("RootWebArea", "Accepted by mx1.example.net") // a screen reader reads the title first
	k.wantNode("heading", "Accepted by mx1.example.net")
	k.wantNode("paragraph", "They asked again at")
	k.wantNode("link", "See that request")

	k.begins("copy the reply")
	k.finds("maria@example.com", person)
	w.eval(`Object.defineProperty(navigator, "clipboard", { value: { writeText: async (t) => { window.copied = t } } }); ""`)
	k.do(k.key("c"))
	w.Until(`window.copied?.startsWith("We sent a code to") && document.querySelector("#copy").textContent === "Copied"`)
	k.wantNode("button", "Copied")

	k.begins("send the code again")
	k.finds("maria@example.com", person)
	k.leads("/admin/sends/"+maria.ID.String()+"?do=resend", k.key("s"))
	k.wantNode("textbox", "Why")
	k.leads("/admin/sends/"+maria.ID.String()+"?done=verification.resend", chromedp.KeyEvent("ticket 7"), k.key(kb.Enter))
	k.wantNode("RootWebArea", "Sent again at")
	k.wantNode("status", "accepted it.")

	k.begins("reset the quota")
	k.finds(store.SupportReference(maria.ID), "/admin/sends/"+maria.ID.String())
	k.leads("/admin/sends/"+maria.ID.String()+"?do=reset", k.key("r"))
	k.leads("/admin/sends/"+maria.ID.String()+"?done=quota.reset", chromedp.KeyEvent("ticket 7"), k.key(kb.Enter))
	k.wantNode("status", "The quota is reset: they can ask again now.")

	k.begins("lift a suppression")
	k.finds("paul@example.com", "/admin?recipient="+paul.Recipient.String())
	k.wantNode("StaticText", "this recipient gets no mail")
	k.leads("/admin/suppressions?recipient=", k.key("l"))
	k.wantNode("textbox", "Why may they get messages again?")
	k.leads("/admin/suppressions?done=suppression.lift", chromedp.KeyEvent("asked for mail again"), k.key(kb.Enter))
	k.wantNode("status", "Lifted: p•••@example.com gets messages again. Nothing was sent now")

	k.begins("export a person's data")
	k.finds("paul@example.com", "/admin?recipient="+paul.Recipient.String())
	k.leads(explain.SendPageAddress(paul.ID)+"?do=export", k.key("x"))
	k.do(chromedp.KeyEvent("ticket 8"), k.key(kb.Enter))
	w.Until(`document.querySelector("#reason") !== null`)                                                           // the answer is a file, and the page stays
	servertest.Await(t, "the export's end", func() bool { return len(r.Entries(auth.ActionExportRecipient)) == 2 }) // begun and done
	w.wantEval(`"read-only: " + document.querySelector("#reason").readOnly`, "read-only: false")

	k.begins("erase a person")
	k.finds("paul@example.com", "/admin?recipient="+paul.Recipient.String())
	k.leads(explain.SendPageAddress(paul.ID)+"?do=erase", k.key("e"))
	k.wantNode("checkbox", "I understand this can't be undone.")
	k.do(chromedp.KeyEvent("ticket 9"), k.key(kb.Tab))
	k.leads(explain.SendPageAddress(paul.ID)+"?done=recipient.erase", k.key(" "), k.key(kb.Enter))
	k.wantNode("status", "The recipient is erased.")
	k.ends()

	// The key ? shows the keys of the page, and the switch turns them off.
	k.begins("the list of keys")
	k.finds("maria@example.com", person)
	k.do(k.key("?"))
	w.wantEval(`document.querySelector("#keys").innerText`, "Copy the reply to the person", "Send the code again", "Open the send")
	w.eval(`document.querySelector("#keys-on").click(); ""`)
	k.do(press("o"), press("c"))
	w.wantEval(`location.search`, "recipient=")
	w.eval(`document.querySelector("#keys-on").click(); ""`)
	keysOfAnyLayout(w.Page)
	for age, want := range map[string]string{"60": "on: false", "0": "on: true"} {
		// another tab turns the keys off or on
		w.wantEval(`document.cookie = "sendcode_keys=off; path=/admin; max-age=`+age+`", dispatchEvent(new Event("focus")), "on: " +
			document.querySelector("#keys-on").checked`, want)
	}
	w.wantNoProblems()
}

// After Back, filters show which rows are listed, and fields that were read-only while a form was
// sent accept letters again.
func controlsSayWhatThePageDoes(t *testing.T, browser chromium) {
	r := newRig(t)
	sent := r.writeSent("ana@example.com")
	r.writeRefused("bo@example.com", "minute", time.Minute, 1)
	w := openWindow(r, browser)
	w.logIn()
	// The script runs after its evaluation has ended, because an evaluation fails if the browser
	// leaves the page.
	by := func(to, script string) { w.Leads(to, func() { w.eval("setTimeout(() => { " + script + ` }), ""`) }) }
	back := func(to string) { by(to, `history.back()`) }
	open := `String([...document.forms].flatMap((f) => [...f.elements]).filter((e) => e.readOnly).length) + " read-only"`

	// After a search and Back, the field accepts another word.
	w.leads("/admin?recipient=", press("/"), chromedp.KeyEvent("ana@example.com"+kb.Enter))
	back("/admin")
	w.wantEval(open, "0 read-only")
	w.do(press("/"), chromedp.KeyEvent("bo@example.com"))
	w.wantEval(`document.querySelector("#q").value`, "bo@example.com")

	// While a search runs, its field accepts letters. The field of a form that changes something
	// does not, until Back.
	stop := `addEventListener("submit", (e) => e.preventDefault(), { once: true, capture: false });`
	w.wantEval(`(`+strings.TrimSuffix(stop, ";")+`, document.querySelector(".search").requestSubmit(), "search " + document.querySelector("#q").readOnly)`,
		"search false")
	page := explain.SendPageAddress(sent.ID)
	w.goTo(page + "?do=reset")
	w.wantEval(`(`+strings.TrimSuffix(stop, ";")+`, document.querySelector("#reason").value = "ticket 7",
		document.querySelector("#reason").form.requestSubmit(), "reason " + document.querySelector("#reason").readOnly)`, "reason true")
	w.do(chromedp.KeyEvent(kb.Escape)) // stops the answer
	w.wantEval(open, "0 read-only")
	w.goTo(page + "?do=reset")
	w.leads(page+"?done=quota.reset", chromedp.KeyEvent("ticket 7"+kb.Enter))
	back(page + "?do=reset")
	w.wantEval(open, "0 read-only")
	w.do(chromedp.Focus(chromedp.CSS("#reason")), chromedp.KeyEvent(" and 8"))
	w.wantEval(`document.querySelector("#reason").value`, "and 8")

	// After a filter and Back, the filter says again that all rows are shown. This holds on each
	// page with filters.
	for path, name := range map[string]string{"/admin": "status", "/admin/overview": "last", "/admin/messages": "purpose"} {
		w.goTo(path)
		before := w.eval(`document.querySelector("form.filter [name=` + name + `]").value`)
		w.eval(`(() => { const s = document.querySelector("form.filter [name=` + name + `]"); s.selectedIndex = s.options.length - 1; return "" })()`)
		by(path+"?", `document.querySelector("form.filter").requestSubmit()`)
		back(path)
		w.wantEval(`"is " + document.querySelector("form.filter [name=`+name+`]").value + "."`, "is "+before+".")
		w.wantEval(`document.querySelector("form.filter").autocomplete`, "off") // without it, Firefox keeps the choice when a page is loaded again
	}

	// By keyboard a filter applies only with Enter, or when the focus leaves it, however the choice
	// was moved. The focus comes back, even to a field outside the filters.
	w.goTo("/admin")
	w.do(chromedp.Focus(chromedp.CSS(`[name=status]`)), chromedp.KeyEvent(kb.ArrowDown+kb.ArrowDown+kb.ArrowDown), chromedp.KeyEvent("f"))
	w.wantEval(`location.search + "|" + document.activeElement.name + "|" + document.querySelector("[name=status]").value`, "|status|failed")
	w.leads("/admin?status=failed", chromedp.KeyEvent(kb.Enter))
	w.wantEval(`document.activeElement.name`, "status")
	w.do(chromedp.KeyEvent("s"))
	by("/admin?status=s", `document.querySelector("#q").focus()`)
	w.wantEval(`document.activeElement.name`, "q")
	w.wantNoProblems()
}
