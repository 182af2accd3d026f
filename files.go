// Package sendcode has the files of the repository that the program writes itself.
package sendcode

import _ "embed"

// Compose is the compose file of a service on one file.
//
//go:embed compose.yaml
var Compose string

// Service is systemd's unit, and Socket the one of its port.
var (
	//go:embed deploy/systemd/sendcode.service
	Service string
	//go:embed deploy/systemd/sendcode.socket
	Socket string
)
