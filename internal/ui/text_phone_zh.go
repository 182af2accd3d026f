package ui

var chineseOnPhones = texts{
	AskLead: "我们会把验证码发到您的手机。", AskLeadDigits: "我们会把 {n} 位验证码发到您的手机。",
	AskLeadCharacters: "我们会把 {n} 个字符的验证码发到您的手机。",
	AddressLabel:      "手机号码",
	BadAddress: map[string]string{
		"empty":               "请填写手机号码。",
		"too_long":            "号码太长，请检查一下。",
		"too_short":           "号码位数不够，请检查一下，固话请加区号。",
		"invalid_number":      "没有这样的号码，请检查号码和所选的国家或地区。",
		"invalid_character":   "请只填号码：数字，可以带空格、横线或括号。",
		"no_country_code":     "请以 + 和国家代码开头，例如 +86 138 0013 8000。",
		"number_not_allowed":  "不能向收费的特殊号码发送验证码，请填写手机号码。",
		"country_not_served":  "暂不支持向这个国家或地区的号码发送验证码。",
		"voip":                "不能向网络电话号码发送验证码，请填写手机号码。",
		"invisible_character": "号码里有看不见的字符，请手动输入，不要粘贴。",
		"control_character":   "号码里有看不见的字符，请手动输入，不要粘贴。",
	},
	BadAddressElse: "这不是有效的手机号码，请检查一下。",

	CheckMail: "请查看短信", MayArrive: "短信可能还在路上",
	CodeRequired:   "请填写短信里的验证码。",
	ResendFailed:   "上一条短信没能发出，这次不计次数。如果您收到过更早的短信，里面的验证码仍然有效。",
	NotArrivedLead: "运营商没能把上一条短信送到您的手机，仍计入次数。",

	AcceptedAt: "运营商已在 {c} 收下这条短信。", AcceptedElse: "运营商在 {d}前收下了这条短信。",
	NotAcceptedYet: "运营商还没有收下，我们仍在尝试。",
	AcceptedHow:    "没有等到运营商的答复，短信可能已被收下，仍有可能送达，其中的验证码有效。",
	HasArrived:     "运营商反馈，短信已送达您的手机。",
	LookInSpamElse: "请确认手机有信号，并看看被拦截的短信和陌生号码发来的短信。",
	SameCode:       "再发一条，验证码不变。", FreshCode: "再发一条，会是新的验证码。",

	EnoughFailures:     "验证码无法送达此号码",
	EnoughFailuresLead: "最近向 {to} 发送的短信多次失败，暂时不再向它发送。请检查号码是否正确。",
	EnoughCarrier:      "运营商暂时不再接收验证码短信",
	EnoughCarrierLead:  "运营商限制了每个号码接收验证码的次数，{to} 已用完。这是运营商的限制。",

	ChangeAddress: "更改号码",
	AwayKept:      "您的号码已保留：{to}",
	ApprovedLead:  "{to} 确认是您的号码。",
	Another:       "换一个号码",
	PipsLabel:     "这个号码的发送次数", CarrierRule: "运营商",
}
