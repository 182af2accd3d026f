package browsertest

// These keys of WebDriver have no character (https://www.w3.org/TR/webdriver2/#keyboard-actions).
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
