package clients

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"sendcode/internal/run/app/apptest"
)

const fewRequests = 1200 // the same requests in each run

// emptyMember matches a JSON member that is an empty string. Such a member counts as left out.
var emptyMember = regexp.MustCompile(`,"\w+":""|"\w+":"",`)

var randomRequests = flag.Int("clients.requests", fewRequests, "random requests that are held against the specification")

// The answer to each random request conforms to the specification. No request causes a 5xx other
// than 502. A request that the specification refuses is refused, and one that it accepts is not
// called malformed.
func TestRandomRequestsMatchTheSpecification(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Tenants().Add(`requests_per_minute: 0
limits: {month: [{name: month, key: user, limit: 3, per: month}], web: [{name: m, key: [resource, ip], limit: 9, window: 60s}]}
`).Start(1)
	doc, router, seed := s.OpenAPI(), s.SpecRouter(), uint64(4)
	if *randomRequests != fewRequests {
		seed = rand.Uint64()
	}
	r := requests{rand.New(rand.NewPCG(seed, 1)), s.Ask(0, apptest.Ana), "", "", apptest.As(apptest.PublicKey)}
	paths := slices.Sorted(maps.Keys(doc.Paths.Map()))
	statuses, failures, served := map[int]int{}, 0, map[string]bool{}
	for n := range *randomRequests {
		if n%500 == 0 { // a random request may have canceled the last one
			r.owner = fmt.Sprintf("own%d@example.com", n)
			body := fmt.Sprintf(`{"channel":"email","to":%q,"code":"739154"}`, r.owner)
			r.own = s.Post("/v1/verifications", body, apptest.As(apptest.APIKey)).ID
		}
		path := paths[n%len(paths)]
		operations := doc.Paths.Value(path).Operations()
		method := pick(r, slices.Sorted(maps.Keys(operations)))
		address, body, change := r.address(path, operations[method]), r.body(operations[method]), r.caller(path)
		if r.IntN(20) == 0 {
			change = append(change, with("Content-Type", "text/plain"))
		}
		if r.IntN(6) == 0 {
			change = append(change, with("Idempotency-Key",
				pick(r, []string{"short", strings.Repeat("k", 300), "0123456789abcdef" + fmt.Sprint(r.IntN(9))})))
		}
		a := s.Do(0, method, address, body, change...)
		statuses[a.StatusCode]++
		served[operations[method].OperationID] = served[operations[method].OperationID] || a.StatusCode < 300
		fits, err := apptest.CheckRequest(router, method, address, body, change...), apptest.CheckAnswer(router, method, address, a)
		switch {
		case err != nil:
		case a.StatusCode >= 500 && a.StatusCode != http.StatusBadGateway:
			err = fmt.Errorf("the service failed")
		case fits != nil && a.StatusCode < 300 && path != "/widget.js" &&
			apptest.CheckRequest(router, method, address, emptyMember.ReplaceAllString(body, ""), change...) != nil:
			err = fmt.Errorf("accepted, but the specification says %w", fits)
		case fits == nil && slices.Contains([]int{400, 413, 415}, a.StatusCode) && !strings.Contains(a.Problem(), "bad-request"):
			err = fmt.Errorf("refused, but the specification takes it")
		}
		if err != nil {
			if failures++; failures <= 20 {
				t.Errorf("request %d of seed %d: %s %s %.300s: %d %.300s: %v", n, seed, method, address, body, a.StatusCode, a.Raw, err)
			}
		}
	}
	t.Logf("%d requests, %d failures; by status %v", *randomRequests, failures, statuses)
	// The seed of the few requests was chosen so that they get every answer.
	enough := *randomRequests == fewRequests || *randomRequests >= 10_000
	// These operations need not succeed, since a random request seldom has what they need, such as
	// a code that can still be entered.
	for id, ok := range served {
		if needs := "adminAcceptSubscription adminCancel adminLiftPrefix adminResend authHook carrierReceipt " +
			"carrierReceiptByQuery providerEvents redeemProof adminReveal checkNamed"; !ok && enough &&
			!slices.Contains(strings.Fields(needs), id) {
			t.Errorf("no request to %s was served", id)
		}
	}
	for _, status := range []int{200, 202, 204, 400, 401, 403, 404, 409, 413, 415, 422} {
		if statuses[status] == 0 {
			t.Errorf("no answer was %d: %v", status, statuses)
		}
	}
}

// requests makes random requests. Most of them are nearly right.
type requests struct {
	*rand.Rand
	known  apptest.Answer
	own    string // the ID of a verification whose code its caller made
	owner  string // the recipient of that verification
	public func(*http.Request)
}

func pick[T any](r requests, all []T) T { return all[r.IntN(len(all))] }

func (r requests) caller(path string) []func(*http.Request) {
	right := apptest.As(apptest.APIKey)
	if strings.HasPrefix(path, "/v1/admin") {
		right = apptest.AsAdmin
	}
	wrong := []func(*http.Request){
		with("Authorization", ""), with("Authorization", "Bearer x"), apptest.AsAdmin,
		apptest.As(apptest.APIKey), r.public,
	}
	if r.IntN(10) == 0 {
		right = pick(r, wrong)
	}
	return []func(*http.Request){right}
}

// address fills in the parameters of a path and of its query.
func (r requests) address(path string, o *openapi3.Operation) string {
	ids := []string{
		r.known.ID, r.known.ID, r.own, r.known.Send.ID, r.known.Send.ID, "nothing", "00000000-0000-7000-8000-000000000000",
		"%F0%9F%98%80",
	}
	names := strings.NewReplacer("{id}", pick(r, ids),
		"{limit}", pick(r, []string{"month", "month", "web", "none"}), "{name}", "any", "{carrier}", "any")
	query := url.Values{}
	for _, p := range o.Parameters {
		if p.Value.In == "query" && (p.Value.Required || r.IntN(5) == 0) {
			// An empty parameter counts as left out.
			if text := strings.Trim(string(r.text(r.value(p.Value.Schema))), `"`); text != "" {
				query.Add(p.Value.Name, text)
			}
		}
	}
	if r.IntN(20) == 0 {
		query.Add(pick(r, []string{"nope", "limit", "to"}), "x\x00y")
	}
	address := names.Replace(path)
	if text := query.Encode(); text != "" {
		address += "?" + text
	}
	if r.IntN(50) == 0 {
		address += "?%zz"
	}
	return address
}

// body returns a request body that the schema describes, often with a mistake in it.
func (r requests) body(o *openapi3.Operation) string {
	if o.RequestBody == nil {
		return ""
	}
	media := o.RequestBody.Value.Content.Get("application/json")
	if media == nil || media.Schema == nil || r.IntN(40) == 0 {
		return pick(r, []string{"{", "[]", "null", "\"\xff\"", `{"a":1,"a":2}`, "", `{"x":"` + strings.Repeat("x", 17<<10) + `"}`})
	}
	value := r.value(media.Schema)
	if object, ok := value.(map[string]any); ok && r.IntN(3) == 0 {
		name := pick(r, append(slices.Sorted(maps.Keys(object)), "unknown", "code", "trust", "verification_id"))
		if r.IntN(2) == 0 {
			delete(object, name)
		} else {
			object[name] = r.junk()
		}
	}
	return string(r.text(value))
}

func (requests) text(value any) []byte {
	text, _ := json.Marshal(value) // value has only types that JSON has
	return text
}

func (r requests) junk() any {
	return pick(r, []any{
		true, -1, 1.5, "", "", "x", "a\x00b", "\u202e", strings.Repeat("é", 300), "😀",
		[]any{}, map[string]any{}, map[string]any{"a": 1},
	})
}

// value returns a value of the schema's type. Most of the values also keep the schema's bounds and
// pattern.
func (r requests) value(ref *openapi3.SchemaRef) any {
	s := ref.Value
	if len(s.OneOf)+len(s.AnyOf) > 0 {
		return r.value(pick(r, append(slices.Clone(s.OneOf), s.AnyOf...)))
	}
	object := map[string]any{}
	for _, part := range s.AllOf {
		if more, ok := r.value(part).(map[string]any); ok {
			maps.Copy(object, more)
		}
	}
	switch {
	case len(s.Enum) > 0:
		return pick(r, s.Enum)
	case s.Type.Is("object") || len(s.AllOf) > 0:
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) { // so that a seed repeats its requests
			property := s.Properties[name]
			if slices.Contains(append([]string{"channel", "to"}, s.Required...), name) || r.IntN(8) == 0 {
				object[name] = r.named(name, property)
			}
		}
		return object
	case s.Type.Is("array"):
		return []any{r.value(s.Items)}
	case s.Type.Is("integer"):
		return 1 + r.IntN(200)
	case s.Type.Is("boolean"):
		return r.IntN(2) == 0
	case s.Format == "date-time":
		return "2026-03-04T14:02:20Z"
	case s.Format == "uuid":
		return "00000000-0000-7000-8000-000000000000"
	case s.Pattern == "":
		return pick(r, []any{"x", "default", "123456", "é", strings.Repeat("y", 64)})
	}
	for _, text := range []string{
		"DE", "203.0.113.9", "203.0.113.0/24", "0123456789abcdef0123456789abcdef",
		"S-7K3M-Q2XP", "login", "ticket 7",
	} {
		if s.VisitJSON(text) == nil && r.IntN(3) > 0 {
			return text
		}
	}
	return pick(r, []any{"x", "default", ""})
}

// named returns a value for a member of this name.
func (r requests) named(name string, schema *openapi3.SchemaRef) any {
	switch name {
	case "to":
		known := []any{apptest.Ana, apptest.Ana, apptest.Ana, r.owner, r.owner}
		return pick(r, append(known, fmt.Sprintf("r%d@example.com", r.IntN(300)), "+4915123456789", "no-address", "", "a@b@c"))
	case "channel":
		return pick(r, []any{"email", "email", "email", "sms"})
	case "purpose":
		return pick(r, []any{"default", "default", "unknown"})
	case "code":
		return pick(r, []any{"000000", "123 456", "1234567", "abcdef"})
	case "keys":
		return pick(r, []map[string]any{{"user": fmt.Sprint(r.IntN(9))}, {"resource": "/x", "ip": "203.0.113.9"}, {}})
	}
	return r.value(schema)
}
