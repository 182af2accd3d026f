package locate

// FakeSMSC is where Debian puts the SMS centre of Kannel's own tests.
const FakeSMSC = "/usr/lib/kannel/test/fakesmsc"

// Kannel is the SMS gateway, with its fake SMS centre: the path of bearerbox, beside which smsbox lies.
func Kannel() Part {
	return Part{
		Name: "Kannel", Debian: []string{"kannel", "kannel-extras"}, Homebrew: "kannel",
		find: func() (string, bool) {
			if _, ok := firstFile(FakeSMSC); !ok {
				return "", false
			}
			if path, ok := inPath("bearerbox")(); ok {
				return path, true
			}
			return firstFile("/usr/sbin/bearerbox")
		},
	}
}
