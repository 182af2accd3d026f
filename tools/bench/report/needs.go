package report

import (
	"math"
	"time"
)

// Units are the costs of one send with its check, as measured.
type Units struct {
	Service, Postgres, Redis time.Duration // processor time of a send at 64 callers, and of one check
	WAL                      float64       // bytes, without whole pages
	Row                      float64       // bytes of tables and indexes
	Key                      float64       // bytes of Redis for a recipient
}

// What the arithmetic takes for granted.
const (
	PeakFactor    = 4   // busiest second to mean
	Busy          = 0.5 // how busy a processor may be at the peak
	Retention     = 90  // days
	PerReplica    = 4   // processors of one replica
	Pool          = 13  // connections of one replica to Postgres
	MailTime      = 0.3 // s that a mail server takes for a mail
	Scattered     = 2   // index entries of a send that are in no order of time: its recipient, and the key of its verification
	page          = 8192
	secondsPerDay = 86400
)

// Needs are what so many sends a day need.
type Needs struct {
	Peak                     float64 // sends a second
	Service, Postgres, Redis float64 // processors
	Replicas                 int
	Connections              int     // to Postgres
	Mail                     int     // connections to mail servers at the peak
	WALDay                   float64 // bytes
	Pages                    float64 // bytes of whole pages a day, at most
	Disk                     float64 // bytes after Retention days
	Memory                   float64 // bytes of Redis
}

// Need is plain arithmetic from the unit costs.
func Need(u Units, sends float64) Needs {
	n := Needs{Peak: PeakFactor * sends / secondsPerDay}
	processors := func(each time.Duration) float64 { return n.Peak * each.Seconds() / Busy }
	n.Service, n.Postgres, n.Redis = processors(u.Service), processors(u.Postgres), processors(u.Redis)
	n.Replicas = max(2, int(math.Ceil(n.Service/PerReplica))) // one may fail
	n.Connections = n.Replicas * Pool
	n.Mail = int(math.Ceil(n.Peak * MailTime))
	n.WALDay = sends * u.WAL
	n.Pages = sends * Scattered * page
	n.Disk = sends * u.Row * Retention
	n.Memory = sends * u.Key
	return n
}
