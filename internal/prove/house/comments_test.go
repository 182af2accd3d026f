package house

import (
	"regexp"
)

var (
	// compoundName is a name of two words, such as ErrClosed, that is no part of a path or of another name.
	compoundName  = regexp.MustCompile(`(?:^|[^./\w])([A-Za-z][a-z0-9]+[A-Z]\w*[a-z]\w*)`)
	docLink       = regexp.MustCompile(`\[\*?([A-Z]\w*)(?:\.[A-Z]\w*)?\](?:[^(]|$)`) // not the link of a document
	qualifiedName = regexp.MustCompile(`\b([a-z]\w+)\.([A-Z]\w*[a-z]\w*)`)
	exampleLine   = regexp.MustCompile(`(?m)^\t.*$`)
	// othersNames are names that comments have of other programs.
	othersNames = words("restJson1 CommonErrors BranchNode StrictMode DevTools WebDriver BiDi WebKitGTK PullSmsSendStatus SnsHostProvider TestWebhookSign " +
		"CommandComplete TypeScript")
)
