// Package internal has the product's packages in eight layers, called rooms: base, store, codes, limit,
// deliver, verify, http and run. No room imports a later one. Beside them kit and prove are for tests. The
// limiter with its Lua script is package quota, HTML and scripts are in web, the API is specified in
// docs/openapi.yaml, the built-in policy is in completePolicies of run/config, and the fake SMTP server is
// deliver/delivery/smtptest.
//
// This directory has the tests of the small packages, each in a file named after its package, such as
// bucketnames_test.go. One program runs them all, since linking one for each package takes longer than the tests.
package internal
