package admin

var englishWebhooks = map[string]string{
	"nav.webhooks":           "Webhooks",
	"events.title":           "Events for apps",
	"events.nothing":         "No event is kept. An app is told of its sends once it has a webhook; events are kept for a week after they have ended.",
	"events.column.event":    "Event",
	"events.column.answer":   "Last answer",
	"events.column.attempts": "Attempts",
	"events.state.any":       "all states",
	"events.state.pending":   "pending",
	"events.state.delivered": "delivered",
	"events.state.given_up":  "given up",
	"events.again":           "again in {wait}",
}

var chineseWebhooks = map[string]string{
	"nav.webhooks":           "Webhook",
	"events.title":           "发给应用的事件",
	"events.nothing":         "没有保留的事件。应用配置 webhook 后才会收到通知；事件结束后保留一周。",
	"events.column.event":    "事件",
	"events.column.answer":   "最近的应答",
	"events.column.attempts": "尝试次数",
	"events.state.any":       "所有状态",
	"events.state.pending":   "等待中",
	"events.state.delivered": "已送达",
	"events.state.given_up":  "已放弃",
	"events.again":           "{wait}后重试",
}
