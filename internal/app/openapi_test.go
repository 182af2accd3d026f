package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// What is answered is what the specification says, and everything that it names is answered.
func TestAnswersMatchTheSpecification(t *testing.T) {
	s := embedded(t).start(1)
	router := s.specification()
	sent := s.ask(0, ana)
	s.awaitMail(ana, 1)
	id := sent.ID
	asAdmin := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	for _, c := range []struct {
		method, path, body string
		status             int
		change             func(*http.Request)
	}{
		{"POST", "/v1/verifications", `{"channel":"email","to":"bea@example.com","reference":"r-1"}`, 202, nil},
		{"POST", "/v1/verifications", `{"channel":"email","to":"` + ana + `"}`, 429, nil},
		{"POST", "/v1/verifications", `{"channel":"email","to":"nobody"}`, 422, nil},
		{"POST", "/v1/verifications", `{`, 400, nil},
		{"POST", "/v1/verifications", `{"verification_id":"nothing"}`, 404, nil},
		{"POST", "/v1/verifications", `{"channel":"email","to":"cleo@example.com"}`, 202, withKey("the-key-of-cleo-and-dora")},
		{"POST", "/v1/verifications", `{"channel":"email","to":"cleo@example.com"}`, 202, withKey("the-key-of-cleo-and-dora")},
		{"POST", "/v1/verifications", `{"channel":"email","to":"dora@example.com"}`, 422, withKey("the-key-of-cleo-and-dora")},
		{"POST", "/v1/verifications", `{"channel":"email","to":"dora@example.com"}`, 400, withKey("a key that is not quoted")},
		{"GET", "/v1/verifications/" + id, "", 200, nil},
		{"GET", "/v1/verifications/nothing", "", 404, nil},
		{"POST", "/v1/verifications/" + id + "/check", `{"code":"000000"}`, 200, nil},
		{"POST", "/v1/verifications/" + id + "/check", `{"code":"x"}`, 422, nil},
		{"POST", "/v1/verifications/check", `{"channel":"email","to":"` + ana + `","code":"000000"}`, 200, nil},
		{"POST", "/v1/verifications/check", `{"channel":"email","to":"never@example.com","code":"000000"}`, 404, nil},
		{"POST", "/v1/verifications/check", `{"channel":"email","to":"` + ana + `","code":""}`, 422, nil},
		{"POST", "/v1/verifications/" + id + "/cancel", "", 200, nil},
		{"POST", "/v1/verifications/" + id + "/cancel", "{}", 200, nil},
		{"POST", "/v1/verifications/" + id + "/cancel", `{"why":1}`, 400, nil},
		{"POST", "/v1/verifications/nothing/cancel", "", 404, nil},
		{"POST", "/v1/quota", `{"channel":"email","to":"` + ana + `"}`, 200, nil},
		{"POST", "/v1/quota", `{"channel":"email","to":"never@example.com","purpose":"default"}`, 200, nil},
		{"POST", "/v1/verifications", `{"channel":"sms","to":"0151 23456789","country":"DE"}`, 202, nil},
		{"POST", "/v1/verifications", `{"channel":"sms","to":"0151 23456789","country":"Germany"}`, 422, nil},
		{"GET", "/v1/channels", "", 200, nil},
		{"GET", "/v1/channels?purpose=default", "", 200, nil},
		{"GET", "/v1/channels", "", 401, asAdmin},
		{"GET", "/v1/admin/sends", "", 200, asAdmin},
		{"GET", "/v1/admin/sends?limit=1&status=sent", "", 200, asAdmin},
		{"GET", "/v1/admin/sends?limit=0", "", 422, asAdmin},
		{"GET", "/v1/admin/stats", "", 200, asAdmin},
		{"GET", "/v1/admin/stats?last=7d&channel=email", "", 200, asAdmin},
		{"GET", "/v1/admin/stats?status=sent", "", 422, asAdmin},
		{"GET", "/v1/admin/stats", "", 401, nil},
		{"GET", "/v1/admin/sends/" + sent.Send.ID, "", 200, asAdmin},
		{"GET", "/v1/admin/sends/00000000-0000-7000-8000-000000000000", "", 404, asAdmin},
		{"POST", "/v1/admin/search", `{"channel":"email","to":"` + ana + `"}`, 200, asAdmin},
		{"GET", "/v1/admin/acts", "", 200, asAdmin},
		{"GET", "/v1/admin/acts?limit=0", "", 422, asAdmin},
		{"GET", "/v1/admin/acts", "", 401, nil},
		{"POST", "/v1/admin/suppressions", `{"channel":"email","to":"flo@example.com","reason":"asked"}`, 201, asAdmin},
		{"POST", "/v1/admin/suppressions", `{"channel":"email","to":"flo@example.com"}`, 422, asAdmin},
		{"POST", "/v1/verifications", `{"channel":"email","to":"flo@example.com"}`, 502, patiently},
		{"GET", "/v1/admin/suppressions", "", 200, asAdmin},
		{"GET", "/v1/admin/suppressions?state=never", "", 422, asAdmin},
		{"POST", "/v1/admin/suppressions/lift", `{"channel":"email","to":"flo@example.com","reason":"mended"}`, 200, asAdmin},
		{"POST", "/v1/admin/suppressions/lift", `{`, 400, asAdmin},
		{"POST", "/v1/verifications", `{"channel":"email","to":"flo@example.com"}`, 202, patiently},
		{"GET", "/v1/admin/prefixes", "", 200, asAdmin},
		{"GET", "/v1/admin/prefixes?state=never", "", 422, asAdmin},
		{"GET", "/v1/admin/prefixes", "", 401, nil},
		{"POST", "/v1/admin/prefixes/lift", `{"id":"00000000-0000-7000-8000-000000000000","reason":"ours"}`, 404, asAdmin},
		{"POST", "/v1/admin/prefixes/lift", `{"id":"x","reason":"ours"}`, 422, asAdmin},
		{"POST", "/v1/admin/prefixes/lift", `{`, 400, asAdmin},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/reveal", `{"reason":"ticket 7"}`, 200, asAdmin},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/reveal", `{"reason":""}`, 422, asAdmin},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/reveal", `{"reason":"ticket 7"}`, 401, nil},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/cancel", `{"reason":"ticket 7"}`, 409, asAdmin},
		{"POST", "/v1/admin/sends/" + sent.Send.ID + "/resend", `{"reason":"ticket 7"}`, 409, asAdmin},
		{"POST", "/v1/admin/sends/00000000-0000-7000-8000-000000000000/cancel", `{"reason":"x"}`, 404, asAdmin},
		{"POST", "/v1/admin/quota/reset", `{"channel":"email","to":"bea@example.com","reason":"ticket 7"}`, 204, asAdmin},
		{"POST", "/v1/verifications", `{"channel":"email","to":"bea@example.com"}`, 202, nil},
		{"POST", "/v1/admin/quota/reset", `{"channel":"email","to":"bea@example.com","reason":"for bea@example.com"}`, 422, asAdmin},
		{"POST", "/v1/admin/erase", `{"channel":"email","to":"bea@example.com","purpose":"default","reason":"ticket 7"}`, 204, asAdmin},
		{"POST", "/v1/verifications", `{"channel":"email","to":"bea@example.com"}`, 429, nil},
		{"POST", "/v1/admin/erase", `{"channel":"email"}`, 422, asAdmin},
		{"GET", "/v1/admin/acts", "", 200, asAdmin},
		{"GET", "/v1/admin/sends", "", 401, nil},
		{"GET", "/widget.js", "", 200, nil},
		{"GET", "/v1/admin/webhooks", "", 200, asAdmin},
		{"GET", "/v1/admin/webhooks?state=lost", "", 422, asAdmin},
		{"GET", "/v1/admin/webhooks", "", 401, nil},
		{"GET", "/v1/admin/tail?limit=1", "", 422, asAdmin},
		{"GET", "/v1/admin/sends.csv?status=sent", "", 200, asAdmin},
		{"GET", "/v1/admin/sends.csv?limit=1", "", 422, asAdmin},
		{"GET", "/v1/admin/sends.csv", "", 401, nil},
		{"GET", "/v1/admin/tail", "", 401, nil},
	} {
		var change []func(*http.Request)
		if c.change != nil {
			change = append(change, c.change)
		}
		got := s.do(0, c.method, c.path, c.body, change...)
		if got.status != c.status {
			t.Errorf("%s %s: %d, want %d: %s", c.method, c.path, got.status, c.status, got.raw)
			continue
		}
		if err := conforms(router, c.method, c.path, got); err != nil {
			t.Errorf("%s %s: %d: %v", c.method, c.path, got.status, err)
		}
	}
}

func (s *stack) specification() routers.Router { s.Helper(); return s.specificationOf(0) }

func (s *stack) specificationOf(i int) routers.Router {
	s.Helper()
	served := s.do(i, http.MethodGet, "/openapi.yaml", "")
	doc, err := openapi3.NewLoader().LoadFromData(served.raw)
	if err != nil {
		s.Fatal(err)
	}
	if err := doc.Validate(s.Context()); err != nil {
		s.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		s.Fatal(err)
	}
	return router
}

func conforms(router routers.Router, method, path string, got answer) error {
	req, err := http.NewRequest(method, path, nil)
	if err != nil {
		return err
	}
	route, params, err := router.FindRoute(req)
	if err != nil {
		return err
	}
	if route.Operation.Responses.Status(got.status) == nil {
		return fmt.Errorf("status %d is not in the specification", got.status)
	}
	if media := route.Operation.Responses.Status(got.status).Value.Content.Get(got.header.Get("Content-Type")); media != nil && json.Valid(got.raw) {
		var value any
		if err := json.Unmarshal(got.raw, &value); err != nil {
			return err
		}
		if unnamed := unnamed(media.Schema, value, ""); len(unnamed) > 0 {
			return fmt.Errorf("not in the specification: %v", unnamed)
		}
	}
	return openapi3filter.ValidateResponse(req.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
		Status:                 got.status, Header: got.header, Body: io.NopCloser(bytes.NewReader(got.raw)),
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true, MultiError: true, ExcludeResponseBody: strings.HasPrefix(got.header.Get("Content-Type"), "text/javascript"),
		},
	})
}

// unnamed are the members of an answer that no schema of it names; an object that names none may have any.
func unnamed(schema *openapi3.SchemaRef, value any, path string) (paths []string) {
	switch v := value.(type) {
	case []any:
		for _, s := range consistsOf(schema) {
			for _, item := range v {
				if s.Items != nil {
					paths = append(paths, unnamed(s.Items, item, path+"[]")...)
				}
			}
		}
	case map[string]any:
		named := map[string]*openapi3.SchemaRef{}
		for _, s := range consistsOf(schema) {
			maps.Copy(named, s.Properties)
		}
		for name, member := range v {
			switch s, ok := named[name]; {
			case ok:
				paths = append(paths, unnamed(s, member, path+"."+name)...)
			case len(named) > 0:
				paths = append(paths, path+"."+name)
			}
		}
	}
	return paths
}

// consistsOf is a schema and all that it consists of.
func consistsOf(schema *openapi3.SchemaRef) []*openapi3.Schema {
	if schema == nil || schema.Value == nil {
		return nil
	}
	all := []*openapi3.Schema{schema.Value}
	for _, s := range schema.Value.AllOf {
		all = append(all, consistsOf(s)...)
	}
	return all
}
