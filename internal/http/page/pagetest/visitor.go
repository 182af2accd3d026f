package pagetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"sendcode/internal/http/api"
)

// Person sends requests to the API as the page's widget does, without a browser.
type Person struct {
	Header  http.Header // more headers of each request
	ID      string      // the ID of the newest verification
	handler http.Handler
}

// ask posts the body to the API, and returns the status and the parsed answer.
func (p *Person) ask(path string, body map[string]any) (status int, answer map[string]any, err error) {
	text, _ := json.Marshal(body) // cannot fail for strings
	r := httptest.NewRequest(http.MethodPost, "https://codes.example/v1/verifications"+path, strings.NewReader(string(text)))
	r.RemoteAddr = "127.0.0.1:999"
	for name, values := range p.Header {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+api.PageKey("shop"))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	err = json.Unmarshal(w.Body.Bytes(), &answer)
	return w.Code, answer, err
}

// Send requests a code. If what is nil, it requests that the newest verification's code is sent
// again. An answer that the page shows, such as a 429, is not an error.
func (p *Person) Send(what map[string]any) error {
	if what == nil {
		what = map[string]any{"verification_id": p.ID}
	}
	status, answer, err := p.ask("", what)
	if id, sent := answer["id"].(string); sent {
		p.ID = id
	}
	refused := status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden
	if err == nil && refused {
		err = fmt.Errorf("status %d: %v", status, answer["detail"])
	}
	return err
}

// Check tries a code.
func (p *Person) Check(code string) error {
	_, _, err := p.ask("/"+p.ID+"/check", map[string]any{"code": code})
	return err
}
