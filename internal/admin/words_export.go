package admin

var englishExport = map[string]string{
	"export.button":     "Export as CSV",
	"deed.sends.export": "exported sends",
}

var chineseExport = map[string]string{
	"export.button":     "导出 CSV",
	"deed.sends.export": "导出发送记录",
}
