package quota

import "testing"

func FuzzBucket(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("a%3Ab", "", "a:b", "")
	f.Add("", "", ":", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if one, two := Bucket(a, b), Bucket(c, d); (one == two) != (a == c && b == d) {
			t.Errorf("%q and %q", one, two)
		}
		if one, two := Bucket(a, b, c), Bucket(a+b, c); one == two {
			t.Errorf("three parts and two make %q", one)
		}
	})
}

func TestBucket(t *testing.T) {
	same(t, "bucket", Bucket("shop", "email", "default", "ip", "2001:db8::/64"), "shop:email:default:ip:2001%3Adb8%3A%3A/64")
	same(t, "escaped", Bucket("100%", ""), "100%25:")
}
