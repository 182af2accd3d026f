package webhook

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/standardwebhooks"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
)

// A sample of each type is signed and marked as a test, and its answer is told.
func TestPostSample(t *testing.T) {
	secrets, status := [][]byte{[]byte("the first secret of 24 bytes")}, http.StatusNoContent
	var got eventPayload
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = eventPayload{}
		at, _ := strconv.ParseInt(r.Header.Get("Webhook-Timestamp"), 10, 64)
		if json.Unmarshal(body, &got) != nil ||
			r.Header.Get("Webhook-Signature") != standardwebhooks.Sign(secrets, r.Header.Get("Webhook-Id"), time.Unix(at, 0), body) {
			t.Errorf("%s: %v", body, r.Header)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(hook.Close)
	d := New(Settings{Guard: loopback, Endpoints: map[string]Endpoint{"shop": {URL: hook.URL, Secrets: secrets}}}, Dependencies{})
	servertest.Same(t, "apps", strings.Join(d.Apps(), " "), "shop")
	for _, e := range store.EventTypes {
		answer, ok, err := d.PostSample(t.Context(), "shop", e.Name)
		servertest.Same(t, e.Name, fmt.Sprint(answer, ok, err), fmt.Sprint("204", true, nil))
		servertest.Same(t, e.Name, fmt.Sprint(got.Type, got.Data.Status, got.Data.App, got.Data.Test), fmt.Sprint(e.Name, e.Status, "shop", true))
	}
	status = http.StatusUnauthorized
	answer, ok, err := d.PostSample(t.Context(), "shop", store.SendBounced)
	servertest.Same(t, "refused", fmt.Sprint(answer, ok, err), fmt.Sprint("401", false, nil))
	for _, other := range [][2]string{{"gym", store.SendBounced}, {"shop", "send.arrived"}} {
		if _, _, err := d.PostSample(t.Context(), other[0], other[1]); err == nil {
			t.Errorf("%v was sent", other)
		}
	}
}
