// Package sendcode has the files of the repository that the program writes itself.
package sendcode

import _ "embed"

// Compose is the compose file of a service on one file.
//
//go:embed compose.yaml
var Compose string

// Service is systemd's unit, Socket the one of its port, and Backup and BackupTimer those of a copy
// each night.
var (
	//go:embed deploy/systemd/sendcode.service
	Service string
	//go:embed deploy/systemd/sendcode.socket
	Socket string
	//go:embed deploy/systemd/sendcode-backup.service
	Backup string
	//go:embed deploy/systemd/sendcode-backup.timer
	BackupTimer string
)
