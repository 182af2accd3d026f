package browsertest

// These are keys for [Tab.Keys]. Their values are those of WebDriver
// (https://www.w3.org/TR/webdriver2/#keyboard-actions).
const (
	PageDown  = "\uE00F"
	End       = "\uE010"
	Home      = "\uE011"
	ArrowDown = "\uE015"
)

// WebDriver has code points of its own for Enter and Tab.
var namedKeys = map[rune]string{'\r': "\uE007", '\t': "\uE004"}

// keyActions returns the actions that press a key for each rune.
func keyActions(text string) []object {
	var actions []object
	for _, r := range text {
		key := string(r)
		if named, ok := namedKeys[r]; ok {
			key = named
		}
		actions = append(actions, object{"type": "keyDown", "value": key}, object{"type": "keyUp", "value": key})
	}
	return []object{{"type": "key", "id": "keyboard", "actions": actions}}
}
