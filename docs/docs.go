// Package docs has the documents that the service itself serves.
package docs

import "embed"

// OpenAPI describes the HTTP API. The service serves the description at /openapi.yaml. Tests
// compare the description with real answers.
//
//go:embed openapi.yaml
var OpenAPI []byte

// Pages has the documents of this folder, but not those of its subfolder decisions.
//
//go:embed *.md
var Pages embed.FS
