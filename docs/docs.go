// Package docs has the documents that the service itself serves.
package docs

import "embed"

// OpenAPI is the description of the HTTP surface, served at /openapi.yaml and held against real
// answers by the tests.
//
//go:embed openapi.yaml
var OpenAPI []byte

// Pages are this folder's documents, without the decisions.
//
//go:embed *.md
var Pages embed.FS
