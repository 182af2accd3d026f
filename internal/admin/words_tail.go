package admin

var englishTail = map[string]string{
	"nav.tail":     "Live",
	"tail.title":   "Live",
	"tail.pause":   "Pause",
	"tail.resume":  "Resume",
	"tail.live":    "live",
	"tail.paused":  "paused, {n} new",
	"tail.lost":    "connection lost, trying again",
	"tail.gap":     "More came than can be shown: some rows are missing. Filters help.",
	"tail.nothing": "Nothing yet. What is asked for, refused and sent appears here as it happens.",
	"tail.needs":   "This page needs JavaScript. The list under Sends shows the same, as often as you load it.",
}

var chineseTail = map[string]string{
	"nav.tail":     "实时",
	"tail.title":   "实时",
	"tail.pause":   "暂停",
	"tail.resume":  "继续",
	"tail.live":    "实时",
	"tail.paused":  "已暂停，{n} 条新记录",
	"tail.lost":    "连接中断，正在重试",
	"tail.gap":     "记录过多，部分未显示。请使用筛选。",
	"tail.nothing": "暂无记录。请求、拒绝和发送会实时显示在这里。",
	"tail.needs":   "此页需要 JavaScript。“发送记录”列表显示相同内容，刷新即可更新。",
}
