package browsertest

// The keys of WebDriver without a character (https://www.w3.org/TR/webdriver2/#keyboard-actions).
var namedKeys = map[rune]string{'\r': "\uE007", '\t': "\uE004"}

// keyActions press a key for each rune.
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

// clickActions press the mouse at a point of the window.
func clickActions(x, y float64) []object {
	return []object{{"type": "pointer", "id": "mouse", "actions": []object{
		{"type": "pointerMove", "x": x, "y": y}, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0},
	}}}
}
