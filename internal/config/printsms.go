package config

import "go.yaml.in/yaml/v3"

// smsNode names where secrets come from, and never holds one.
func (c Config) smsNode() *yaml.Node {
	voip := "allow"
	if c.SMS.RefuseVoIP {
		voip = "refuse"
	}
	n := mapping("countries", flow(texts(c.SMS.Countries)), "voip", text(voip), "segments", number(c.SMS.Segments), "origin", text(c.SMS.Origin),
		"public_url", text(c.SMS.PublicURL), "sender", text(c.SMS.Sender), "senders", flow(pairs(c.SMS.Senders)))
	carriers := sequence()
	for _, carrier := range c.SMS.Carriers {
		carriers.Content = append(carriers.Content, carrier.node())
	}
	switch {
	case c.DevPhone():
		carriers.LineComment = "the dev mailbox"
	case len(c.SMS.Carriers) == 0:
		carriers.LineComment = "none: there are no text messages"
	}
	if len(c.SMS.Carriers) == 0 {
		carriers = flow(carriers)
	}
	put(n, "carriers", carriers)
	caps := flow(sequence())
	for _, s := range c.SMS.Spend {
		caps.Content = append(caps.Content, mapping("name", text(s.Name), "scope", text(string(s.Scope)), "per", text(string(s.Per)), "limit", text(amountText(s.Limit))))
	}
	put(n, "spend", caps)
	put(n, "watch", c.SMS.Watch.node())
	return n
}

func (c SMSCarrier) node() *yaml.Node {
	n := mapping("name", text(c.Name), "type", text(c.Type))
	optional := func(key, value string) {
		if value != "" {
			put(n, key, text(value))
		}
	}
	optional("secret_env", c.SecretEnv)
	optional("secret_file", c.SecretFile)
	if len(c.Prefixes) > 0 {
		put(n, "prefixes", flow(texts(c.Prefixes)))
	}
	put(n, "timeout", text(short(c.Timeout)))
	if c.PollOff {
		put(n, "poll", text("off"))
	}
	prices := map[string]string{}
	for country, price := range c.Prices {
		prices[country] = amountText(price)
	}
	if c.DefaultPrice != nil {
		prices[defaultName] = amountText(*c.DefaultPrice)
	}
	if len(prices) > 0 {
		put(n, "prices", flow(pairs(prices)))
	}
	switch c.Type {
	case typeHTTP:
		c.httpNode(n, optional)
	case typeTwilio:
		optional("account", c.Twilio.Account)
		optional("key", c.Twilio.Key)
		optional("service", c.Twilio.Service)
		optional("endpoint", c.Twilio.Endpoint)
	case typeAliyun:
		optional("key_id", c.Aliyun.KeyID)
		optional("sign", c.Aliyun.Sign)
		optional("endpoint", c.Aliyun.Endpoint)
		putApproved(n, c.Aliyun.Templates, c.Aliyun.Params)
	case typeTencent:
		optional("key_id", c.Tencent.KeyID)
		optional("app", c.Tencent.App)
		optional("sign", c.Tencent.Sign)
		optional("region", c.Tencent.Region)
		optional("endpoint", c.Tencent.Endpoint)
		putApproved(n, c.Tencent.Templates, c.Tencent.Params)
	}
	return n
}

func (c SMSCarrier) httpNode(n *yaml.Node, optional func(key, value string)) {
	g := c.HTTP
	optional("method", g.Method)
	optional("url", g.URL)
	optional("user", g.User)
	if len(g.Header) > 0 {
		put(n, "headers", pairs(g.Header))
	}
	optional("format", string(g.Format))
	optional("body", g.Body)
	answer := mapping()
	some := func(key, value string) {
		if value != "" {
			put(answer, key, text(value))
		}
	}
	some("id", g.Answer.ID.String())
	some("code", g.Answer.Code.String())
	if len(g.Answer.Accepted) > 0 {
		put(answer, "accepted", flow(texts(g.Answer.Accepted)))
	}
	if g.Answer.Match != nil {
		some("match", g.Answer.Match.String())
	}
	for _, table := range []struct {
		key   string
		words map[string]string
	}{{"codes", g.Answer.Codes}, {"statuses", g.Answer.Statuses}} {
		if len(table.words) > 0 {
			put(answer, table.key, flow(pairs(table.words)))
		}
	}
	if len(answer.Content) > 0 {
		put(n, "answer", answer)
	}
	if p := g.Poll; p.URL != "" {
		put(n, "poll", flow(mapping("url", text(p.URL), "status", text(p.Status), "delivered", flow(texts(p.Delivered)), "undelivered", flow(texts(p.Undelivered)))))
	}
	if r := g.Receipt; r.Status != "" {
		put(n, "receipt", flow(mapping("status", text(r.Status), "delivered", flow(texts(r.Delivered)), "undelivered", flow(texts(r.Undelivered)))))
	}
}

func putApproved(n *yaml.Node, templates map[string]map[string]string, params []string) {
	all := mapping()
	for _, purpose := range sortedKeys(templates) {
		put(all, purpose, flow(pairs(templates[purpose])))
	}
	put(n, "templates", all)
	if len(params) > 0 {
		put(n, "params", flow(texts(params)))
	}
}

func texts(values []string) *yaml.Node {
	all := sequence()
	for _, v := range values {
		all.Content = append(all.Content, text(v))
	}
	return all
}

func pairs(values map[string]string) *yaml.Node {
	all := mapping()
	for _, key := range sortedKeys(values) {
		put(all, key, text(values[key]))
	}
	return all
}
