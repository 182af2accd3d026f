// Package sendcode has files of the repository that the program itself writes.
package sendcode

import _ "embed"

// Compose is the compose file of a service on one file.
//
//go:embed compose.yaml
var Compose string

// Service is the systemd unit of the service, and Socket is the systemd unit of the service's port.
// Backup is the unit of a backup, and BackupTimer is the timer that starts a backup each night.
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
