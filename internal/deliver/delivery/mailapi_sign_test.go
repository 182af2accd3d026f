package delivery_test

import (
	"testing"
	"time"

	"sendcode/internal/deliver/delivery/mailapi"
)

// TestAWS4Authorization is the example of
// docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-signing-examples.html, ListUsers.
func TestAWS4Authorization(t *testing.T) {
	at := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	got := mailapi.AWS4Authorization("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1", "iam", at, "GET", "/",
		"Action=ListUsers&Version=2010-05-08", map[string]string{
			"content-type": "application/x-www-form-urlencoded; charset=utf-8", "host": "iam.amazonaws.com",
			"x-amz-date": "20150830T123600Z",
		}, "")
	if want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, " +
		"Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"; got != want {
		t.Errorf("got %s", got)
	}
}
