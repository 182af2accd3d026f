package tencent

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"sendcode/internal/delivery"
	"sendcode/internal/sms"
)

func (c *carrier) Address() string { return c.Endpoint }

// Probe asks for the templates (tencentcloud.com/document/product/382/40524), those of the mainland and then the others: status
// 0 is approved.
func (c *carrier) Probe(ctx context.Context) (string, error) {
	ids := c.Templates.All()
	var numbers []int
	for _, id := range ids {
		n, err := strconv.Atoi(id)
		if err != nil {
			return "", fmt.Errorf("template %s: %w", id, sms.ErrUnknownTemplate)
		}
		numbers = append(numbers, n)
	}
	approved := map[int]bool{}
	for international := range 2 {
		if err := c.templates(ctx, international, numbers, approved); err != nil {
			return "", err
		}
	}
	for i, n := range numbers {
		if !approved[n] {
			return "", fmt.Errorf("template %s: %w", ids[i], sms.ErrUnknownTemplate)
		}
	}
	return sms.KnownTemplates(ids), nil
}

func (c *carrier) templates(ctx context.Context, international int, ids []int, approved map[int]bool) error {
	a, fail := c.Do(ctx, c.request("DescribeSmsTemplateList", map[string]any{"International": international, "TemplateIdSet": ids}))
	if fail != nil {
		return fail
	}
	var said struct {
		Response struct {
			Error                     *struct{ Code string }
			DescribeTemplateStatusSet []struct{ TemplateID, StatusCode int }
		}
	}
	switch err := json.Unmarshal(a.Body, &said); {
	case err != nil:
		return sms.ErrUndocumented
	case said.Response.Error == nil:
	case strings.HasPrefix(said.Response.Error.Code, "AuthFailure"):
		return sms.ErrLogin
	default:
		return &sms.Error{Class: delivery.Temporary, Stage: sms.StageAnswer, Status: a.Status, Code: sms.SafeCode(said.Response.Error.Code)}
	}
	for _, t := range said.Response.DescribeTemplateStatusSet {
		approved[t.TemplateID] = approved[t.TemplateID] || t.StatusCode == 0
	}
	return nil
}
