package admin

import "maps"

// joined is one language's texts out of several files.
func joined(parts ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}

// What administrators did.
var englishActs = map[string]string{
	"nav.acts":       "Acts",
	"acts.title":     "What administrators did",
	"acts.all":       "All acts",
	"acts.nothing":   "Nothing has been done yet.",
	"column.on":      "On whom",
	"column.who":     "Who",
	"column.outcome": "Outcome",
	"column.deed":    "What, and why",
	"column.from":    "From",
	"outcome.begun":  "begun",
	"outcome.done":   "done",
	"outcome.failed": "failed",
	"deed.login":     "logged in",
	"role.reader":    "reader",
	"role.operator":  "operator",
	"role.owner":     "owner",
}

var chineseActs = map[string]string{
	"nav.acts":       "操作记录",
	"acts.title":     "管理员操作记录",
	"acts.all":       "全部操作",
	"acts.nothing":   "还没有任何操作。",
	"column.on":      "对象",
	"column.who":     "操作者",
	"column.outcome": "结果",
	"column.deed":    "操作及原因",
	"column.from":    "来源",
	"outcome.begun":  "已开始",
	"outcome.done":   "已完成",
	"outcome.failed": "未成功",
	"deed.login":     "登录",
	"role.reader":    "查看者",
	"role.operator":  "操作员",
	"role.owner":     "所有者",
}
