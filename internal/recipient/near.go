package recipient

import "strings"

// Letters that a slip of the hand may put into an address or a number. What is no address then falls out by itself.
const (
	lettersOfAddress = "abcdefghijklmnopqrstuvwxyz0123456789.-_"
	lettersOfNumber  = "0123456789"
)

// Near returns the valid recipients one typing error away (Damerau, 1964): a letter missing, added, replaced, or swapped with its
// neighbour. These are about 2,000 for an address and 200 for a number, without duplicates and without r, in no particular order.
func (r Recipient) Near() []Recipient {
	letters, fixed := lettersOfAddress, ""
	if r.Channel() == SMS {
		letters, fixed = lettersOfNumber, "+"
	}
	typed, _ := strings.CutPrefix(strings.ToLower(r.Address()), fixed)
	seen := map[string]bool{}
	var all []Recipient
	for _, slip := range slips(typed, letters) {
		other, err := Parse(r.Channel(), fixed+slip)
		if err != nil || seen[other.Address()] || other.parts().folded == r.parts().folded {
			continue
		}
		seen[other.Address()] = true
		all = append(all, other)
	}
	return all
}

// slips returns all texts one typing error away from s. It works on bytes; results that are no valid UTF-8 fail to parse later.
func slips(s, letters string) (all []string) {
	for i := range len(s) {
		all = append(all, s[:i]+s[i+1:])
		if i+1 < len(s) {
			all = append(all, s[:i]+s[i+1:i+2]+s[i:i+1]+s[i+2:])
		}
		for _, l := range letters {
			all = append(all, s[:i]+string(l)+s[i+1:])
		}
	}
	for i := range len(s) + 1 {
		for _, l := range letters {
			all = append(all, s[:i]+string(l)+s[i:])
		}
	}
	return all
}
