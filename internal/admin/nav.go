package admin

// section is an entry of the frame's menu; its text is "nav." and its name.
type section struct{ Name, Path string }

// sections are the menu, in its order.
var sections = []section{
	{"sends", "/admin"},
	{"overview", "/admin/overview"},
	{"tail", "/admin/tail"},
	{"policies", "/admin/policies"},
	{"preview", "/admin/preview"},
	{"suppressions", "/admin/suppressions"},
	{"prefixes", prefixesPath},
	{"acts", "/admin/acts"},
	{"accounts", "/admin/accounts"},
	{"webhooks", "/admin/webhooks"},
}

// Sections are for the frame.
func (Page) Sections() []section { return sections }
