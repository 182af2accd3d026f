package aliyun

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"sendcode/internal/sms"
)

func (c *carrier) Address() string { return c.Endpoint }

// Probe asks for each template (help.aliyun.com/zh/sms/developer-reference/api-dysmsapi-2017-05-25-getsmstemplate): status 1 is
// approved.
func (c *carrier) Probe(ctx context.Context) (string, error) {
	ids := c.Templates.All()
	for _, id := range ids {
		a, fail := c.Do(ctx, c.request("GetSmsTemplate", map[string]string{"TemplateCode": id}))
		if fail != nil {
			return "", fail
		}
		var said struct {
			Code           string
			TemplateStatus json.RawMessage // a number or a text with it
		}
		switch err := json.Unmarshal(a.Body, &said); {
		case err != nil || said.Code == "":
			return "", sms.ErrUndocumented
		case strings.HasPrefix(said.Code, "SignatureDoesNotMatch"), strings.HasPrefix(said.Code, "IncompleteSignature"),
			strings.HasPrefix(said.Code, "InvalidAccessKeyId"):
			return "", sms.ErrLogin
		case said.Code != "OK":
			return "", fmt.Errorf("template %s: %w: %s", id, sms.ErrUnknownTemplate, sms.SafeCode(said.Code))
		case strings.Trim(string(said.TemplateStatus), `"`) != "1":
			return "", fmt.Errorf("template %s: %w", id, sms.ErrUnknownTemplate)
		}
	}
	return sms.KnownTemplates(ids), nil
}
