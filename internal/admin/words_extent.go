package admin

// How far the log reaches.
var (
	englishExtent = map[string]string{
		"extent.title":            "The log",
		"extent.empty":            "It is empty.",
		"extent.oldest":           "It reaches back to {day} (UTC).",
		"extent.ever":             "Its rows are kept for ever.",
		"extent.kept":             "Its rows are kept for {time}.",
		"extent.due.none":         "None is older.",
		"extent.due.one":          "{n} row is older, and goes next.",
		"extent.due.other":        "{n} rows are older, and go next.",
		"extent.due.many":         "{n} rows or more are older, and go next.",
		"extent.forgetting.one":   "Of {n} erased recipient the keyed hash is kept until no rule counts it any more.",
		"extent.forgetting.other": "Of {n} erased recipients the keyed hash is kept until no rule counts it any more.",
		"extent.late.one":         "{n} of these is due to go.",
		"extent.late.other":       "{n} of these are due to go.",
		"extent.partitions":       "Partitions of sends",
		"extent.name":             "Table",
		"extent.begins":           "From",
		"extent.ends":             "Until",
		"extent.rows":             "Rows, about",
		"extent.size":             "Size",
	}
	chineseExtent = map[string]string{
		"extent.title":            "日志",
		"extent.empty":            "目前为空。",
		"extent.oldest":           "最早记录于 {day}（UTC）。",
		"extent.ever":             "记录永久保留。",
		"extent.kept":             "记录保留 {time}。",
		"extent.due.none":         "没有超过期限的记录。",
		"extent.due.one":          "{n} 行已超过期限，即将删除。",
		"extent.due.other":        "{n} 行已超过期限，即将删除。",
		"extent.due.many":         "至少 {n} 行已超过期限，即将删除。",
		"extent.forgetting.one":   "{n} 位已抹除的收件人，其带密钥的哈希保留到不再有规则计入为止。",
		"extent.forgetting.other": "{n} 位已抹除的收件人，其带密钥的哈希保留到不再有规则计入为止。",
		"extent.late.one":         "其中 {n} 个即将删除。",
		"extent.late.other":       "其中 {n} 个即将删除。",
		"extent.partitions":       "发送记录的分区",
		"extent.name":             "表",
		"extent.begins":           "起",
		"extent.ends":             "止",
		"extent.rows":             "行数（约）",
		"extent.size":             "大小",
	}
)
