// Package sendcode has files of the repository that the program itself writes.
package sendcode

import _ "embed"

// Compose is the compose file of a service on one file.
//
//go:embed compose.yaml
var Compose string

// Service is systemd's unit of the service, Socket the unit of its port. Backup and BackupTimer are
// the units of a backup each night.
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
