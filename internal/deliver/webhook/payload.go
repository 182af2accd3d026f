package webhook

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
)

// eventPayload is the body of an event. It has only data that the app's back end could also read
// from the API with its secret key. It has neither a code nor a full recipient.
type eventPayload struct {
	Type      string    `json:"type"`
	Timestamp string    `json:"timestamp"` // when the event happened
	Data      eventData `json:"data"`
}

type eventData struct {
	VerificationID string  `json:"verification_id"`
	SendID         *string `json:"send_id"` // null if the event is not about a send
	App            string  `json:"app"`
	Channel        string  `json:"channel"`
	Purpose        string  `json:"purpose"`
	To             string  `json:"to"` // masked; empty if the event is about the app
	Status         string  `json:"status"`
	Reason         *string `json:"reason"`
	Reference      *string `json:"reference"`
	Test           bool    `json:"test"`
}

func marshalEvent(e store.AppEvent) ([]byte, error) {
	d := eventData{
		VerificationID: e.VerificationID, App: e.App, Channel: string(e.Channel), Purpose: e.Purpose, To: e.To,
		Status: e.Status,
		Reason: nullIfEmpty(e.Reason), Reference: nullIfEmpty(e.Reference), Test: e.Test,
	}
	if e.SendID != uuid.Nil {
		id := e.SendID.String()
		d.SendID = &id
	}
	return json.Marshal(eventPayload{Type: e.Type, Timestamp: e.At.UTC().Format("2006-01-02T15:04:05.000Z"), Data: d})
}

func nullIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// roundedSeconds returns a duration in whole seconds, rounded, for log lines.
func roundedSeconds(d time.Duration) int { return int(d.Round(time.Second) / time.Second) }
