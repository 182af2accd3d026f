// A back end that uses what oapi-codegen makes of docs/openapi.yaml: `send <to>` or `check <id>
// <code>`.
package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
)

func main() {
	c, err := NewClientWithResponses(os.Getenv("CODES_URL"),
		WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+os.Getenv("CODES_KEY"))
			return nil
		}))
	must(err)
	answer := map[string]any{}
	switch os.Args[1] {
	case "send":
		var ask Ask
		must(ask.FromNewAsk(NewAsk{Channel: NewAskChannelEmail, To: os.Args[2]}))
		a, err := c.SendWithResponse(context.Background(), &SendParams{}, ask)
		must(err)
		if sent := a.JSON202; sent != nil {
			answer["id"], answer["status"] = sent.Id, sent.Status
		} else if refused := a.ApplicationproblemJSON429; refused != nil {
			p, err := refused.AsQuotaProblem()
			must(err)
			answer["retry_after"], answer["blocked_by"] = p.RetryAfter, p.BlockedBy
		}
	case "check":
		a, err := c.CheckWithResponse(context.Background(), os.Args[2], &CheckParams{}, CheckJSONRequestBody{Code: os.Args[3]})
		must(err)
		right, err := a.JSON200.AsApproved()
		must(err)
		wrong, err := a.JSON200.AsNotApproved()
		must(err)
		answer["valid"] = bool(right.Valid)
		if right.Valid {
			answer["status"], answer["proof"] = right.Status, right.Proof
		} else {
			answer["status"], answer["attempts_remaining"] = wrong.Status, *wrong.AttemptsRemaining
		}
	}
	must(json.NewEncoder(os.Stdout).Encode(answer))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
