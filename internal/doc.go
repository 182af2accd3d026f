// Package internal has the product in rooms, one above the other: base, store, codes, limit, deliver,
// verify, http and run; beside them kit and prove, for tests. The limiter with its Lua script is
// package quota, HTML and scripts are in web, the specification of the API is docs/openapi.yaml,
// the built-in policy completePolicies of run/config, and the fake SMTP server deliver/delivery/smtptest.
//
// Here are the tests of the small packages, of each in a file with its name: bucketnames_test.go is of
// package bucketnames. One program runs them all, since linking a program for each takes longer than
// their tests.
package internal
