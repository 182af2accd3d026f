package quotahttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// The limit is 100 requests in 60 s for a resource and an IP address.
func Example() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) // a service uses time.Now, or quota.NewRedis
	guard, err := quotahttp.New(quotahttp.Config{
		Limiter: quota.NewMemory(func() time.Time { return now }),
		Policy: quota.Policy{Name: "web", Rules: []quota.Rule{
			{Name: "visits", Scope: quota.IP, Limit: 100, Window: time.Minute},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	prices := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "42") }
	mux.Handle("GET /prices/{id}", guard.Take(http.HandlerFunc(prices)))

	for i := range 101 {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, fmt.Sprint("/prices/", i), nil))
		if i == 0 || i >= 99 {
			fmt.Printf("%d %s, Retry-After %q\n", w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
		}
		now = now.Add(time.Millisecond)
	}
	// Output:
	// 200 "visits";r=99;t=60, Retry-After ""
	// 200 "visits";r=0;t=60, Retry-After ""
	// 429 "visits";r=0;t=60, Retry-After "60"
}

// A login counts only failures: Peek refuses without counting, and the handler calls Count.
func ExampleGuard_Peek() {
	guard, err := quotahttp.New(quotahttp.Config{
		Limiter: quota.NewMemory(time.Now),
		Policy: quota.Policy{
			Name:  "login",
			Rules: []quota.Rule{{Name: "wrong", Scope: quota.IP, Limit: 3, Window: time.Hour}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	login := guard.Peek(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := guard.Count(r); err != nil { // the password was wrong
			http.Error(w, "try later", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	for range 4 {
		w := httptest.NewRecorder()
		login.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/login", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 403 "wrong";r=3;t=0
	// 403 "wrong";r=2;t=3600
	// 403 "wrong";r=1;t=3600
	// 429 "wrong";r=0;t=3600
}

// Events counted by Record are never refused, but leave fewer places for requests counted by Take.
func ExampleGuard_Record() {
	guard, err := quotahttp.New(quotahttp.Config{
		Limiter: quota.NewMemory(time.Now),
		Policy: quota.Policy{
			Name:  "tenant",
			Rules: []quota.Rule{{Name: "calls", Scope: quota.App, Limit: 3, Window: time.Minute}},
		},
		Resource: func(*http.Request) string { return "" }, // all routes count as one resource
		Subjects: map[quota.Scope]quotahttp.Namer{
			// The authentication before this handler has set the header.
			quota.App: func(r *http.Request) string { return r.Header.Get("X-Tenant") },
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.Handle("POST /webhook", guard.Record(ok))
	mux.Handle("GET /report", guard.Take(ok))
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodPost, "/webhook", nil), httptest.NewRequest(http.MethodPost, "/webhook", nil),
		httptest.NewRequest(http.MethodGet, "/report", nil), httptest.NewRequest(http.MethodGet, "/report", nil),
		httptest.NewRequest(http.MethodPost, "/webhook", nil),
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Printf("%s %d [%s]\n", r.URL.Path, w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// /webhook 204 []
	// /webhook 204 []
	// /report 204 ["calls";r=0;t=60]
	// /report 429 ["calls";r=0;t=60]
	// /webhook 204 []
}
