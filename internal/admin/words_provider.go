package admin

// Logging in by a provider.
var (
	englishProvider = map[string]string{
		"onward.title":         "One moment",
		"onward.link":          "Go on",
		"provider.button":      "Log in with {provider}",
		"provider.or":          "or",
		"provider.late":        "That login took too long, or was begun in another browser. Begin again.",
		"provider.unavailable": "{provider} cannot be reached at the moment, so nobody is logged in. Try again shortly.",
		"provider.refused":     "{provider} did not log you in.",
		"provider.untrusted":   "What {provider} answered cannot be believed, so nobody is logged in. Begin again; if it stays so, its settings and ours do not match.",
		"provider.nameless":    "{provider} knows you, and does not vouch for the name that this console goes by.",
		"provider.nobody":      "{provider} knows you, and you have no access here. An owner can give it to you.",
		"detail.oidc":          "by the provider",

		"accounts.identity":               "Name at {provider}",
		"accounts.identity.what":          "Who has one logs in by it and gets no password.",
		"accounts.do.identity":            "Set the name there",
		"accounts.nopassword":             "no password",
		"accounts.problem.bad_identity":   "A name at the provider has at most 200 bytes, and no spaces.",
		"accounts.problem.identity_taken": "Another account has this name at the provider.",
		"deed.account.identity":           "changed a name at the provider",
	}
	chineseProvider = map[string]string{
		"onward.title":         "请稍候",
		"onward.link":          "继续",
		"provider.button":      "使用 {provider} 登录",
		"provider.or":          "或",
		"provider.late":        "此次登录耗时过长，或是在另一个浏览器中开始的，请重新登录。",
		"provider.unavailable": "目前无法连接 {provider}，因此未能登录，请稍后再试。",
		"provider.refused":     "{provider} 未允许您登录。",
		"provider.untrusted":   "{provider} 的答复不可信，因此未能登录。请重试；若仍如此，说明双方的设置不一致。",
		"provider.nameless":    "{provider} 认识您，但没有为本控制台所用的名称作证。",
		"provider.nobody":      "{provider} 认识您，但您无权进入此处，可由所有者授权。",
		"detail.oidc":          "通过身份提供方",

		"accounts.identity":               "在 {provider} 的名称",
		"accounts.identity.what":          "填写后通过该名称登录，不再生成密码。",
		"accounts.do.identity":            "设置该名称",
		"accounts.nopassword":             "无密码",
		"accounts.problem.bad_identity":   "身份提供方的名称最多 200 字节，且不含空格。",
		"accounts.problem.identity_taken": "另一个账号已使用该名称。",
		"deed.account.identity":           "修改身份提供方名称",
	}
)
