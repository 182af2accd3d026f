// Package docs has the documents that the service itself serves.
package docs

import "embed"

// OpenAPI describes the HTTP API. The service serves the description at /openapi.yaml. Tests
// compare the description with real answers.
//
//go:embed openapi.yaml
var OpenAPI []byte

// Pages are this folder's documents, without the decisions.
//
//go:embed *.md
var Pages embed.FS
