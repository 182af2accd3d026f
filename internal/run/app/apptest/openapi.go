package apptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// OpenAPI returns the OpenAPI document that the first replica serves. It fails the test if the
// document is not valid.
func (s *Stack) OpenAPI() *openapi3.T {
	s.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(s.Get("/openapi.yaml").Raw)
	Must(s.T, err)
	Must(s.T, doc.Validate(s.Context()))
	return doc
}

// SpecRouter returns a router with the paths of the first replica's OpenAPI document, for
// CheckAnswer.
func (s *Stack) SpecRouter() routers.Router {
	s.Helper()
	router, err := gorillamux.NewRouter(s.OpenAPI())
	Must(s.T, err)
	return router
}

// inputOf returns a request in the form for its validation against the OpenAPI document.
func inputOf(router routers.Router, method, path, body string, change ...func(*http.Request)) (
	*openapi3filter.RequestValidationInput, error,
) {
	req, err := http.NewRequest(method, path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, c := range change {
		c(req)
	}
	route, params, err := router.FindRoute(req)
	return &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route}, err
}

// CheckRequest returns an error if a request does not match the OpenAPI document.
func CheckRequest(router routers.Router, method, path, body string, change ...func(*http.Request)) error {
	in, err := inputOf(router, method, path, body, change...)
	if err != nil {
		return err
	}
	in.Options = &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	return openapi3filter.ValidateRequest(in.Request.Context(), in)
}

// CheckAnswer returns an error if an answer does not match the OpenAPI document: an unknown path or
// status, an undocumented field, or a wrong value.
func CheckAnswer(router routers.Router, method, path string, got Answer) error {
	in, err := inputOf(router, method, path, "")
	if err != nil {
		return err
	}
	response := in.Route.Operation.Responses.Status(got.StatusCode)
	if response == nil {
		return fmt.Errorf("status %d is not in the specification", got.StatusCode)
	}
	var value any
	if media := response.Value.Content.Get(got.Header.Get("Content-Type")); media != nil && json.Unmarshal(got.Raw, &value) == nil {
		if unnamed := undocumented(media.Schema, value, ""); len(unnamed) > 0 {
			return fmt.Errorf("not in the specification: %v", unnamed)
		}
	}
	return openapi3filter.ValidateResponse(in.Request.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in,
		Status:                 got.StatusCode, Header: got.Header, Body: io.NopCloser(bytes.NewReader(got.Raw)),
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true, MultiError: true,
			ExcludeResponseBody: strings.HasPrefix(got.Header.Get("Content-Type"), "text/javascript"),
		},
	})
}

// undocumented returns the paths of JSON members that no schema names. If the schemas of an object
// name no member, the object may have any member.
func undocumented(schema *openapi3.SchemaRef, value any, path string) (paths []string) {
	switch v := value.(type) {
	case []any:
		for _, s := range parts(schema) {
			for _, item := range v {
				if s.Items != nil {
					paths = append(paths, undocumented(s.Items, item, path+"[]")...)
				}
			}
		}
	case map[string]any:
		named := map[string]*openapi3.SchemaRef{}
		for _, s := range parts(schema) {
			maps.Copy(named, s.Properties)
		}
		for name, member := range v {
			switch s, ok := named[name]; {
			case ok:
				paths = append(paths, undocumented(s, member, path+"."+name)...)
			case len(named) > 0:
				paths = append(paths, path+"."+name)
			}
		}
	}
	return paths
}

// parts returns a schema with the schemas that it includes by allOf, or from which it chooses by
// oneOf.
func parts(schema *openapi3.SchemaRef) []*openapi3.Schema {
	if schema == nil || schema.Value == nil {
		return nil
	}
	all := []*openapi3.Schema{schema.Value}
	for _, s := range slices.Concat(schema.Value.AllOf, schema.Value.OneOf) {
		all = append(all, parts(s)...)
	}
	return all
}
